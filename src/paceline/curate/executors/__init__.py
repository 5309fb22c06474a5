"""Ways to run a pipeline; each is imported when it is used."""

from importlib import import_module
from typing import Any

from paceline.curate.errors import PipelineError
from paceline.curate.pipeline import Executor

_HOMES = {
    "local": ("local", "LocalExecutor"),
    "ray_actors": ("ray_actors", "RayActorExecutor"),
    "ray_data": ("ray_data", "RayDataExecutor"),
    "xenna": ("xenna", "XennaExecutor"),
}
EXECUTORS = tuple(_HOMES)


def make_executor(name: str, **options: Any) -> Executor:
    """The executor of that name."""
    if name not in _HOMES:
        raise PipelineError(f"executor {name!r} is not one of {', '.join(EXECUTORS)}")
    module, kind = _HOMES[name]
    executor: Executor = getattr(import_module(f"paceline.curate.executors.{module}"), kind)(**options)
    return executor
