"""Profilers of a Dask cluster, around a region."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from paceline.pytest_plugin.guarding import guarded
from paceline.pytest_plugin.profilers import draw_memray
from paceline.pytest_plugin.profiles import Profiling


def find_client(client: Any | None) -> Any | None:
    """The client that was given, else the one that Dask would use; none if Dask was never imported."""
    if client is not None or "distributed" not in sys.modules:
        return client
    distributed: Any = sys.modules["distributed"]
    try:
        return distributed.default_client()
    except ValueError:
        return None


@contextmanager
def performance_report(profiling: Profiling, client: Any) -> Iterator[None]:
    """Dask's own page: task stream, profile, system."""
    import bokeh  # noqa: F401 - the scheduler only says so when the region is over

    distributed: Any = import_module("distributed")
    page = _free(profiling.directory, "performance-report", ".html")
    with client.as_current():
        report = distributed.performance_report(filename=str(page))
        report.__enter__()
    try:
        yield
    finally:
        with guarded(profiling.warn, "dask"), client.as_current():
            report.__exit__(None, None, None)
            profiling.keep("performance_report_url", page, page)


@contextmanager
def memray_workers(profiling: Profiling, client: Any) -> Iterator[None]:
    """Follow the allocations of the workers; drawn here, as they need not have memray's command."""
    from distributed.diagnostics import memray

    directory = _free(profiling.directory, "memray-workers", "")
    with client.as_current():
        tracking = memray.memray_workers(directory=directory, report_args=False)
        tracking.__enter__()
    try:
        yield
    finally:
        with guarded(profiling.warn, "memray"), client.as_current():
            tracking.__exit__(None, None, None)
            for raw in sorted(directory.glob("*.memray")):
                profiling.do_later(partial(draw_memray, profiling, raw))


def _free(directory: Path, stem: str, suffix: str) -> Path:
    """A name that no earlier region of the same test has taken."""
    path, number = directory / f"{stem}{suffix}", 1
    while path.exists():
        number += 1
        path = directory / f"{stem}-{number}{suffix}"
    return path
