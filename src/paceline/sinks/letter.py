"""What a courier is told, through memory alone: it holds secrets."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from paceline.model import SinkSpec
from paceline.sinks.outbox import sink_dir

ALL_DELIVERED, GAVE_UP, OFF, BUSY, NO_MEMORY = 0, 3, 4, 5, 6
ENDS = frozenset({ALL_DELIVERED, GAVE_UP, OFF, BUSY, NO_MEMORY})
"""How a courier ends; any other way is a crash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """Which sink of which session, the values to mask, and how long the session's end will wait."""

    session_dir: Path
    spec: SinkSpec
    secrets: Sequence[str]
    wait_s: float
    is_beside_run: bool
    sys_path: Sequence[str]

    @property
    def directory(self) -> Path:
        return sink_dir(self.session_dir, self.spec.name)

    def pack(self) -> bytes:
        return _LETTER.dump_json(self)

    @classmethod
    def unpack(cls, data: bytes) -> "Letter":
        return _LETTER.validate_python(json.loads(data))


_LETTER = TypeAdapter(Letter)
