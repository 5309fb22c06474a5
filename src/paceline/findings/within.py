"""Sides within one session: the values of a parameter, or two cases of different names."""

from collections.abc import Mapping
from dataclasses import replace

from paceline.errors import PacelineError, did_you_mean
from paceline.findings.sides import Measured, Side
from paceline.model import Scalar, is_case, name_case

BETWEEN = ":"
"""Stands between a session and one of its cases."""


def split_by(side: Side, parameter: str) -> list[Side]:
    """A side for each value of a parameter, in the order in which they ran; its cases go by their other parameters."""
    groups: dict[str, list[Measured]] = {}
    for one in sorted(side.measured, key=lambda one: one.record.started_at):
        if parameter in one.record.case.params:
            value = str(one.record.case.params[parameter])
            groups.setdefault(value, []).append(_without(one, parameter))
    if len(groups) < 2:
        names = sorted({name for one in side.measured for name in one.record.case.params})
        known = f"it has {', '.join(names)}" if names else "its cases have no parameters"
        found = f"has one value of {parameter} only" if groups else f"has no parameter {parameter!r}"
        hint = known if groups else did_you_mean(parameter, names, known)
        raise PacelineError(f"{side.about} {found}; {hint}")
    return [
        replace(
            side,
            name=f"{parameter}={value}",
            about=f"{parameter}={value} of {side.about}",
            measured=tuple(those),
        )
        for value, those in groups.items()
    ]


def _without(one: Measured, parameter: str) -> Measured:
    """The same, of a case that is called as if it did not have the parameter."""
    case = one.record.case
    params: Mapping[str, Scalar] = {name: value for name, value in case.params.items() if name != parameter}
    return _called(one, name_case(case.entry, params))


def _called(one: Measured, key: str) -> Measured:
    # What is held against each other is not the same work: that it does other work says nothing.
    case = replace(one.record.case, key=key, variant=None, version="1", fingerprint="")
    return replace(one, record=replace(one.record, case=case))


def one_case(side: Side, wanted: str) -> Side:
    """The side with one of its cases only."""
    keys = {one.record.case.key: one.record.case for one in side.measured}
    found = [key for key, case in keys.items() if wanted in (key, case.name, case.declared_name)]
    found = found or [key for key in keys if is_case(wanted, key)]
    if len(found) != 1:
        hint = did_you_mean(wanted, keys, "'paceline show' lists those there are")
        hint = f"it may be any of {', '.join(sorted(found)[:5])}" if found else hint
        raise PacelineError(f"{wanted!r} is not one case of {side.about}: {hint}")
    kept = tuple(one for one in side.measured if one.record.case.key == found[0])
    return replace(side, name=found[0], about=f"{found[0]} of {side.about}", measured=kept)


def under_one_name(a: Side, b: Side) -> tuple[Side, Side]:
    """Two sides of one case each, under a name that both have from then on."""
    key = f"{b.name} beside {a.name}"
    named = [replace(side, measured=tuple(_called(one, key) for one in side.measured)) for side in (a, b)]
    return named[0], named[1]
