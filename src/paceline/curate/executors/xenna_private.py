"""What we use of Cosmos-Xenna that it does not promise to keep; tried with 0.3.0, and `pyproject.toml` caps it.

The cap leaves room for the 0.5.12 that the lock has for Python 3.12 and later, which was not tried.
"""

from importlib import import_module
from typing import Any


def silence_monitor() -> None:
    """Have its monitor list no actors (Cosmos-Xenna 0.3.0).

    It asks a dashboard for them, 40,000 at once: one that many clusters do not have, and others answer with an error.
    """
    monitoring: Any = import_module("cosmos_xenna.pipelines.private.monitoring")
    monitoring.get_ray_actors = lambda state="ALIVE": []
