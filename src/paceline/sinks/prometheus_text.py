"""Prometheus' text format: families of samples, with names and values written as its parser reads them."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A metric of Prometheus: a name, what it means, and its samples by label."""

    name: str
    meaning: str
    samples: list[tuple[Mapping[str, str], float]] = field(default_factory=list)

    def add(self, value: float, **labels: str) -> None:
        self.samples.append((labels, value))


def format_families(families: Iterable[Family], labels: Mapping[str, str]) -> bytes:
    """The page; `labels` go on every sample."""
    return "".join(f"{line}\n" for family in families for line in _lines(family, labels)).encode(
        "utf-8", "replace"
    )


def _lines(family: Family, common: Mapping[str, str]) -> Iterator[str]:
    if not family.samples:
        return
    yield f"# HELP {family.name} {escape_help(family.meaning)}"
    yield f"# TYPE {family.name} gauge"
    for labels, value in family.samples:
        written = ",".join(f'{name}="{escape_label(text)}"' for name, text in {**common, **labels}.items())
        yield (
            f"{family.name}{{{written}}} {format_value(value)}"
            if written
            else f"{family.name} {format_value(value)}"
        )


def escape_label(text: str) -> str:
    """A label's value: backslash, quote and line feed are written with a backslash."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def escape_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def format_value(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(float(value))
