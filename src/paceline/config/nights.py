"""What a configuration may say about nights; see `schema.py`."""

from typing import Annotated

from pydantic import Field

from paceline.config.sections import Section
from paceline.config.values import Duration, Name, PositiveCount, TextOrList


class Nightly(Section):
    """What `paceline nightly` does besides running the suite: what it measures, and how it follows up what got worse.

    Paths are relative to the file.
    """

    repo: Name | None = Field(
        default=None,
        description="The repository that is measured: `{repo_dir}`, `PACELINE_REPO` and the working directory of every "
        "entry. The one around the file by default.",
    )
    ref: Name | None = Field(
        default=None,
        description="Measure this branch, tag or commit in a working tree of its own, instead of the repository's "
        "files as they are.",
    )
    fetch: bool = Field(default=False, description="Whether to `git fetch` in the repository first.")
    setup: TextOrList | None = Field(
        default=None, description="Builds a revision, run once in its tree. No shell is involved."
    )
    install: list[Name] = Field(
        default=[],
        description="Packages of an environment of its own that depend on the revision, such as `.`, its tree.",
    )
    packages: list[Name] = Field(
        default=[],
        description="Run in an environment with these packages, each as new as it may be tonight; this Python by "
        "default.",
    )
    find_links: list[Name] = Field(
        default=[], description="Directories or pages in which packages are looked for too."
    )
    no_index: bool = Field(default=False, description="Look for packages nowhere else.")
    metrics: list[Name] = Field(
        default=[],
        description="Names or globs of the metrics that the night tells of and follows up; all that have a direction "
        "by default. 'paceline regressions' lists the others too.",
    )
    confirm: bool = Field(default=True, description="Whether what looks worse is run again.")
    confirm_runs: PositiveCount = Field(
        default=15, description="The most runs of each side before a difference counts as not to be seen."
    )
    bisect: bool = Field(default=True, description="Whether the cause of what is confirmed is searched.")
    budget: Duration = Field(
        default=7200.0, description="Time for all runs after the session: seconds, or `90s`, `30m`, `2h`."
    )
    max_runs: PositiveCount = Field(default=150, description="The most runs of one search.")
    confidence: Annotated[float, Field(ge=0.5, lt=1)] = Field(
        default=0.95, description="How sure to be of a culprit."
    )
    suspects: PositiveCount = Field(
        default=5, description="How many suspicions are followed up in one night; the strongest are."
    )
