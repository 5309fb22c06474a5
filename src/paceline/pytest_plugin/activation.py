"""What `--benchmark` switches on: makers of records where tests run, a keeper of them where pytest was started."""

import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest

from paceline.pytest_plugin.recording import Recorder


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a run of pytest keeps things; the directory is the one pytest was started in."""

    directory: Path
    profile_dir: Path
    database: str | None


def place_of(config: pytest.Config) -> Place:
    directory = config.invocation_params.dir
    return Place(
        directory=directory,
        profile_dir=directory / config.option.paceline_profile_dir,
        database=config.option.paceline_db,
    )


def uuid_hex(text: str) -> str:
    """The id of a run; `--testrunuid` lets users give xdist any text."""
    try:
        return uuid.UUID(text).hex
    except ValueError:
        return uuid.uuid5(uuid.NAMESPACE_URL, f"paceline testrunuid {text}").hex


def activate(config: pytest.Config) -> None:
    """Register the parts that this process needs: a worker of xdist keeps nothing, it sends."""
    place = place_of(config)
    # Workers know the id that xdist gives the whole run; without workers it is made here.
    given = getattr(config, "workerinput", {}).get("testrunuid")
    session_id = uuid_hex(given) if given else uuid.uuid4().hex
    config.pluginmanager.register(Recorder(config), "paceline-recorder")
    if config.option.paceline_profile:
        from paceline.pytest_plugin.profile_pass import ProfilePass

        passes = ProfilePass(config.option.paceline_profile, place.profile_dir, session_id)
        config.pluginmanager.register(passes, "paceline-profiles")
    if not hasattr(config, "workerinput"):
        from paceline.pytest_plugin.keeping import Keeper

        config.pluginmanager.register(Keeper(config, place, session_id), "paceline-keeper")
