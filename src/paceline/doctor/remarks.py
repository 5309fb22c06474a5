"""What an examination says: remarks, each with a level, what it means and what to do about it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from paceline.doctor.noise import Noise

SCHEMA = 1

Level = Literal["ok", "note", "warn", "fail"]
LEVELS: tuple[Level, ...] = get_args(Level)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """One thing that was looked at.

    `note` is worth knowing, `warn` makes numbers worse or a feature unusable, `fail` keeps Paceline from working.
    """

    name: str
    level: Level
    value: str
    meaning: str
    fix: str


def remark(name: str, level: Level, value: str, meaning: str, fix: str = "") -> Remark:
    return Remark(name=name, level=level, value=value, meaning=meaning, fix=fix)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """All remarks by section, and the measurement if one was made."""

    sections: Mapping[str, tuple[Remark, ...]]
    noise: Noise | None = None

    @property
    def counts(self) -> Counter[Level]:
        return Counter(one.level for remarks in self.sections.values() for one in remarks)

    @property
    def usable(self) -> bool:
        return not self.counts["fail"]

    def to_json(self) -> dict[str, Any]:
        """For scripts; keys may come, none goes or changes its meaning while `schema` stays the same."""
        return {
            "schema": SCHEMA,
            "usable": self.usable,
            "counts": {level: self.counts[level] for level in LEVELS},
            "noise": asdict(self.noise) if self.noise else None,
            "remarks": [
                {"section": section, **asdict(one)}
                for section, remarks in self.sections.items()
                for one in remarks
            ],
        }
