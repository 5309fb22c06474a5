"""What is timed: commands or statements, with parameters put in, each with what runs around it."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation

from paceline.errors import PacelineError
from paceline.model import Scalar
from paceline.numbers import count

MOST_TARGETS = 10_000
KINDS = ("setup", "prepare", "conclude", "cleanup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One command, or one Python statement, and what to run before and after it.

    `setup` and `cleanup` run once, `prepare` and `conclude` around every run. `place` is that of the command among
    those that were given, before parameters were put in.
    """

    text: str
    name: str
    place: int = 0
    params: Mapping[str, str] = field(default_factory=dict)
    setup: str = ""
    prepare: str = ""
    conclude: str = ""
    cleanup: str = ""

    @property
    def values(self) -> dict[str, Scalar]:
        """The parameters as data: what looks like a number is one."""
        from paceline.history.importers.values import number_or_text

        return {name: number_or_text(value) for name, value in self.params.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """Commands given once for all, or once for each."""

    setup: Sequence[str] = ()
    prepare: Sequence[str] = ()
    conclude: Sequence[str] = ()
    cleanup: Sequence[str] = ()


def make_targets(
    texts: Sequence[str], *, names: Sequence[str], params: Mapping[str, Sequence[str]], around: Around
) -> list[Target]:
    """Every command with every combination of parameters, the command changing first."""
    if len(names) > len(texts) * _combinations(params):
        raise PacelineError(f"{count(len(names), 'name')} are given for {count(len(texts), 'command')}")
    if len(texts) * _combinations(params) > MOST_TARGETS:
        raise PacelineError(f"the parameters make more than {MOST_TARGETS:,} commands")
    for kind in KINDS:
        given = len(getattr(around, kind))
        if given not in (0, 1, len(texts)):
            raise PacelineError(
                f"--{kind} is given {given} times for {count(len(texts), 'command')}: give it once, or once for each"
            )
    _check_use(texts, params, around)
    targets: list[Target] = []
    for values in itertools.product(*params.values()):
        chosen = dict(zip(params, values, strict=True))
        for place, text in enumerate(texts):
            parts = {kind: _filled(_at(getattr(around, kind), place), chosen) for kind in KINDS}
            command = _filled(text, chosen)
            # A name for each command, in which parameters may stand, or one for each combination.
            number = place if len(names) <= len(texts) else len(targets)
            name = _filled(names[number], chosen) if number < len(names) else command
            targets.append(Target(text=command, name=name, place=place, params=chosen, **parts))
    return targets


def make_reference(text: str, name: str, around: Around) -> Target:
    """What the others are compared with: a command without parameters; what is given once for all is for it, too."""
    parts = {kind: given[0] for kind in KINDS if len(given := getattr(around, kind)) == 1}
    return Target(text=text, name=name or text, place=-1, **parts)


def _combinations(params: Mapping[str, Sequence[str]]) -> int:
    total = 1
    for values in params.values():
        total *= len(values)
    return total


def _at(texts: Sequence[str], place: int) -> str:
    if not texts:
        return ""
    return texts[0] if len(texts) == 1 else texts[place]


def _filled(text: str, params: Mapping[str, str]) -> str:
    """The text with each `{name}` of a parameter replaced; any other brace is the command's own."""
    for name, value in params.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _check_use(texts: Sequence[str], params: Mapping[str, Sequence[str]], around: Around) -> None:
    everything = " ".join((*texts, *around.setup, *around.prepare, *around.conclude, *around.cleanup))
    for name in params:
        if f"{{{name}}}" not in everything:
            raise PacelineError(f"no command uses the parameter {name!r}: write it as {{{name}}}")


def scanned(low: str, high: str, step: str | None) -> list[str]:
    """The numbers of a range with both ends, as they are written: `1 2 3`, or `0.1 0.3 0.5` by steps of 0.2."""
    try:
        first, last, by = Decimal(low), Decimal(high), Decimal(step or "1")
    except InvalidOperation:
        raise PacelineError(
            f"--parameter-scan takes numbers, not {low!r} to {high!r} by {step or 1!r}"
        ) from None
    if step is None and not (first == int(first) and last == int(last)):
        raise PacelineError("--parameter-scan of fractions needs --parameter-step-size")
    if by <= 0 or last < first:
        raise PacelineError(f"--parameter-scan from {low} to {high} by {by} holds no value")
    if (last - first) / by > MOST_TARGETS:
        raise PacelineError(
            f"--parameter-scan from {low} to {high} by {by} holds more than {MOST_TARGETS:,} values"
        )
    return [format(value, "f") for value in _steps(first, last, by)]


def _steps(first: Decimal, last: Decimal, by: Decimal) -> Iterator[Decimal]:
    while first <= last:
        yield first
        first += by


def listed(values: str) -> list[str]:
    """The values of a list with commas; a comma that belongs to a value has a backslash before it."""
    found, current, escaped = [], "", False
    for character in values:
        if escaped:
            current += character if character == "," else f"\\{character}"
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == ",":
            found.append(current)
            current = ""
        else:
            current += character
    return [*found, current + "\\" * escaped]
