"""An A/B test's trials into the history, as sessions of a kind of their own."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from paceline.experiments.ab.arms import Arm
from paceline.experiments.trials import TRIALS

KIND = "ab"


def remember(directory: Path, arms: Sequence[Arm], url: str) -> int:
    """Record each trial under the test's name and the arm's variant; how many records were new."""
    from paceline.history import open_store
    from paceline.history.session_files import find_sessions, read_session

    installed = {arm.name: arm.installed for arm in arms}
    added = 0
    with open_store(url) as store:
        for path in find_sessions(directory / TRIALS):
            session, environment, found = read_session(path)
            records = list(found)
            variant = records[0].case.variant if records else None
            packages = installed.get(variant or "", ())
            # The runner's packages are not those that the arm ran with.
            described = {**environment, **({"packages": list(packages)} if packages else {})}
            meta = {**session.meta, "experiment": directory.name, "arm": variant}
            session = replace(session, kind=KIND, name=f"{directory.name}/{session.name}", meta=meta)
            added += store.add(session, described, records).records
    return added
