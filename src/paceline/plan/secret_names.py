"""Names should hold no secret: they become directories and are shown everywhere."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from paceline.config.load import Loaded
from paceline.config.problems import problem_at
from paceline.errors import Problem
from paceline.plan.drafts import Draft

_WHY = "names become directories and are shown: take another one"


def check_names(
    loaded: Loaded,
    session: str,
    drafts: Iterable[Draft],
    secrets: Sequence[str],
    environ: Mapping[str, str],
) -> Iterator[Problem]:
    """Names of the session, of cases and of data set-ups that contain a secret; its value is never told."""
    origins = {secret: _origin(secret, environ) for secret in secrets}
    if found := _find(session, origins):
        yield Problem(file="", line=0, path="", message=f"the name of the session {found}; {_WHY}")
    for i, setup in enumerate(loaded.config.data_setups):
        if found := _find(setup.name, origins):
            yield _problem(loaded, ("data_setups", i, "name"), f"the name {found}; {_WHY}")
    told: set[int] = set()
    for draft in drafts:
        if draft.position not in told and (found := _find(draft.name, origins)):
            told.add(draft.position)
            key = "name" if _find(draft.entry.name, origins) else "matrix"
            what = "the name" if key == "name" else "a value of the matrix, part of the case's name,"
            yield _problem(loaded, ("entries", draft.position, key), f"{what} {found}; {_WHY}")


def _find(name: str, origins: Mapping[str, str]) -> str | None:
    return next((f"contains {origin}" for secret, origin in origins.items() if secret in name), None)


def _origin(secret: str, environ: Mapping[str, str]) -> str:
    names = [name for name, value in environ.items() if value.strip() == secret.strip()]
    return f"the secret in the environment variable {names[0]}" if names else "a secret"


def _problem(loaded: Loaded, path: tuple[str | int, ...], message: str) -> Problem:
    return problem_at(loaded.mark(path), loaded.label(path), message)
