"""Every result remembered: an index over the sessions' files that can be rebuilt from them, in SQLite or PostgreSQL."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from paceline.errors import HistoryError
from paceline.history.session_info import Added, Epoch, SessionInfo
from paceline.history.urls import find_url

if TYPE_CHECKING:
    from paceline.history.series import Point, Series
    from paceline.history.store.store import Store, open_store

__all__ = [
    "Added",
    "Epoch",
    "HistoryError",
    "Point",
    "Series",
    "SessionInfo",
    "Store",
    "find_url",
    "open_store",
]

# Imported by who opens a database or reads a series, which takes numpy; not by who asks for a name.
_LATER = {
    **dict.fromkeys(("Point", "Series"), "paceline.history.series"),
    **dict.fromkeys(("Store", "open_store"), "paceline.history.store.store"),
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)
