"""What of a suite is secret: the variables it marks, and what is written out in it; and what is wrong with either."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from paceline.config.load import Loaded
from paceline.errors import Problem
from paceline.model import Case
from paceline.plan.fingerprints import SecretNames
from paceline.plan.selection import Draft
from paceline.record.redact import (
    MIN_SECRET_LENGTH,
    TAKEN_OUT,
    credentials_in,
    is_secret_name,
    secret_values,
    secret_values_in,
    secrets_of,
)

_NAME_ADVICE = "names become directories and are shown: take another one"


def secret_names(loaded: Loaded) -> SecretNames:
    """Names of the variables that the suite says are secret, also by a sink's `token_env`, or are not."""
    config = loaded.config
    named = [name for sink in config.sinks for name in _named_secrets(sink.options)]
    taken_out = [f"{TAKEN_OUT}{name}" for name in config.not_secrets]
    now = tuple(dict.fromkeys((*config.secrets, *named, *taken_out)))
    return SecretNames(now, {*loaded.used_variables_in_sinks, *config.secrets})


def _named_secrets(options: Any) -> Iterator[str]:
    for key, value in options.items() if isinstance(options, Mapping) else ():
        if isinstance(value, Mapping):
            yield from _named_secrets(value)
        elif isinstance(value, str) and key.endswith("_env"):
            what = key.removesuffix("_env")
            if what == "headers" or is_secret_name(what):
                yield value


def all_secret_values(
    loaded: Loaded, environ: Mapping[str, str], names: SecretNames, cases: Iterable[Case]
) -> tuple[str, ...]:
    """All values to mask, those written out in the suite included."""
    config, marked = loaded.config, frozenset(names.now)
    values = [*secret_values(environ, marked)]
    env, urls = set[tuple[str, str]](), set[str]()
    for case in cases:
        env.update(case.env.items())
        urls.update(word for word in case.argv if "://" in word)
    values += [value for name, text in sorted(env) for value in secrets_of(name, text, marked)]
    values += [value for url in sorted(urls) for value in credentials_in(url)]
    for sink in config.sinks:
        values += secret_values_in(sink.options, sink.type or sink.name)
    for data in (data for entry in config.entries for data in entry.sink_data):
        values += secret_values_in(data.options, data.name)
    if config.history and config.history.url:
        values += credentials_in(config.history.url)
    return tuple(dict.fromkeys(values))


def short_secrets(loaded: Loaded, environ: Mapping[str, str]) -> Iterator[Problem]:
    """Variables under `secrets` whose values are too short to be masked without harm."""
    for i, name in enumerate(loaded.config.secrets):
        if 0 < len(environ.get(name, "").strip()) < MIN_SECRET_LENGTH:
            message = (
                f"the value of {name} has fewer than {MIN_SECRET_LENGTH} characters, too few to be masked"
            )
            yield loaded.problem(("secrets", i), f"{message}; take a longer one, or leave the name out")


def secrets_in_names(
    loaded: Loaded,
    session: str,
    drafts: Iterable[Draft],
    secrets: Sequence[str],
    environ: Mapping[str, str],
) -> Iterator[str]:
    """Names of the session, of cases and of data set-ups that contain a secret; its value is never shown.

    For warnings only: a short secret may stand in a name by chance, and that must not stop a suite.
    """
    origins: dict[str, str] = dict.fromkeys(secrets, "a secret")
    for secret in secrets:
        variables = [name for name, value in environ.items() if value.strip() == secret.strip()]
        if variables:
            origins[secret] = f"the secret in the environment variable {variables[0]}"

    def find(name: str) -> str | None:
        return next((f"contains {origin}" for secret, origin in origins.items() if secret in name), None)

    if found := find(session):
        yield f"the name of the session {found}; {_NAME_ADVICE}"
    for i, setup in enumerate(loaded.config.data_setups):
        if found := find(setup.name):
            yield str(loaded.problem(("data_setups", i, "name"), f"the name {found}; {_NAME_ADVICE}"))
    reported: set[int] = set()
    for draft in drafts:
        if draft.position not in reported and (found := find(draft.name)):
            reported.add(draft.position)
            key = "name" if find(draft.entry) else "matrix"
            what = "the name" if key == "name" else "a value of the matrix, part of the case's name,"
            yield str(loaded.problem(("entries", draft.position, key), f"{what} {found}; {_NAME_ADVICE}"))
