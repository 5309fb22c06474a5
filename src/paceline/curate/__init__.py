"""Curation pipelines: tasks that flow through stages, on one of four executors."""

from importlib import import_module
from typing import TYPE_CHECKING

from paceline.curate.errors import BadRecord, PipelineError
from paceline.curate.pipeline import Pipeline, Result
from paceline.curate.stage import CompositeStage, Resources, Stage
from paceline.curate.task import Reject, Task

if TYPE_CHECKING:
    from paceline.curate.executors.local import LocalExecutor as LocalExecutor
    from paceline.curate.executors.ray_actors import RayActorExecutor as RayActorExecutor
    from paceline.curate.executors.ray_data import RayDataExecutor as RayDataExecutor
    from paceline.curate.executors.xenna import XennaExecutor as XennaExecutor

__all__ = [
    "BadRecord",
    "CompositeStage",
    "LocalExecutor",
    "Pipeline",
    "PipelineError",
    "RayActorExecutor",
    "RayDataExecutor",
    "Reject",
    "Resources",
    "Result",
    "Stage",
    "Task",
    "XennaExecutor",
]

_EXECUTORS = {
    "LocalExecutor": "local",
    "RayActorExecutor": "ray_actors",
    "RayDataExecutor": "ray_data",
    "XennaExecutor": "xenna",
}


def __getattr__(name: str) -> object:
    """Executors are imported when first named: stages alone need none of their packages."""
    module = _EXECUTORS.get(name)
    if module is None:
        raise AttributeError(f"module 'paceline.curate' has no attribute {name!r}")
    return getattr(import_module(f"paceline.curate.executors.{module}"), name)
