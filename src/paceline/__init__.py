"""Paceline runs benchmark suites, remembers every result, and says what changed and why."""

from importlib import import_module

__version__ = "0.1.0"

TYPE_CHECKING = (
    False  # what `typing` would say, without the 15 ms that a benchmark script need not pay for it
)
if TYPE_CHECKING:
    from paceline import emit as emit
    from paceline.errors import PacelineError as PacelineError
    from paceline.model import Case as Case
    from paceline.model import Metric as Metric
    from paceline.model import Plan as Plan
    from paceline.model import Record as Record
    from paceline.model import Status as Status
    from paceline.timing.script import bench as bench

_HOMES = {
    "emit": "paceline.emit",
    "PacelineError": "paceline.errors",
    "Case": "paceline.model",
    "Metric": "paceline.model",
    "Plan": "paceline.model",
    "Record": "paceline.model",
    "Status": "paceline.model",
    "bench": "paceline.timing.script",
}

__all__ = ["Case", "Metric", "PacelineError", "Plan", "Record", "Status", "__version__", "bench", "emit"]


def __getattr__(name: str) -> object:
    """Import public names when first used: benchmark scripts that need only `emit` pay for nothing else."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'paceline' has no attribute {name!r}")
    module = import_module(home)
    return module if home == f"paceline.{name}" else getattr(module, name)
