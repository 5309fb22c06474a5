"""Histories to draw, and what a data file of the dashboard says."""

import json
import re
import struct
from base64 import b64decode
from pathlib import Path
from typing import Any

from paceline.dashboard.build import Built, build
from paceline.dashboard.encoding import file_id
from paceline.dashboard.frame import Options, read_verdicts
from paceline.findings.detection import detect
from paceline.history import Store, open_store
from paceline.model import Check, Status
from stored_records import ENVIRONMENT, case, measured, record, session

NIGHTS = 40
STEP = 30
"""From this night on `slow[n=1]` takes half as long again."""
WOBBLE = (0.0, 0.011, -0.008, 0.004, -0.012, 0.009, -0.003, 0.006)


def wobbling(value: float, night: int) -> float:
    return value * (1 + WOBBLE[night % len(WOBBLE)])


def add_night(store: Store, night: int) -> None:
    """One night: a case that got slower, one that stays, one that broke, one with a source and requirements."""
    slow = wobbling(1.5 if night >= STEP else 1.0, night)
    steady = wobbling(2.0, night + 3)
    broke = night >= NIGHTS - 2
    source = (
        "def test_read():\n    assert read()\n" if night < 20 else "def test_read():\n    assert read(2)\n"
    )
    check = Check(metric="wall_s", kind="max_value", bound=9, actual=steady, margin=0.5, ok=True)
    samples = tuple(slow * factor for factor in (0.99, 1.0, 1.02))
    records = [
        record("slow[n=1]", slow, number=night, metrics={"wall_s": measured(slow, *samples)}),
        record("slow[n=2]", steady * 2, number=night),
        record("steady", steady, number=night, requirements=(check,), case=case("steady", tags=("quick",))),
        record("read", steady, number=night, details={"source": source}),
        record(
            "breaks",
            number=night,
            status=Status.FAILED if broke else Status.PASSED,
            reason="exit code 3" if broke else "",
            metrics={} if broke else {"wall_s": measured(steady)},
        ),
    ]
    packages = ["dask==2026.8.0"] if night < 20 else ["dask==2026.9.0"]
    environment = {**ENVIRONMENT, "id": "env-1" if night < 20 else "env-2", "packages": packages}
    store.add(
        session(night, branch="main"),
        environment,
        [one_of(environment, one) for one in records],
    )


def one_of(environment: dict[str, Any], one: Any) -> Any:
    from dataclasses import replace

    return replace(one, environment=environment["id"])


def make_history(path: Path, nights: int = NIGHTS) -> Path:
    """A history with something to see, searched for changes."""
    with open_store(path) as store:
        for night in range(nights):
            add_night(store, night)
        store.reset("steady", "new data", session(10).started_at)
        detect(store)
    return path


def build_site(database: Path | str, out: Path, **options: Any) -> Built:
    """Build a site; the files of sessions are below the database's directory, unless it is said otherwise."""
    options.setdefault("results", Path(database).parent)
    with open_store(database) as store:
        return build(store, out, Options(**options), read_verdicts(store))


def data(out: Path, name: str) -> Any:
    """What a data file hands over."""
    text = (out / "data" / f"{name}.js").read_text()
    found = re.fullmatch(
        r"\(self\.paceline=self\.paceline\|\|\[\]\)\.push\(\['([^']*)','(.*)'\]\)\n", text, re.DOTALL
    )
    assert found and found[1] == name
    return json.loads(re.sub(r"\\([\\'])", r"\1", found[2]))


def case_parts(out: Path, key: str) -> list[Any]:
    """The stretches of a case's records, oldest first."""
    name = f"case/{file_id(key)}"
    return [data(out, f"{name}-old"), data(out, name)["records"]]


def numbers(packed: Any, count: int) -> list[float | None]:
    """A column, unpacked."""
    if packed is None:
        return [None] * count
    if isinstance(packed, int | float):
        return [float(packed)] * count
    kind = next(name for name in "ifh" if name in packed)
    raw = b64decode(packed[kind])
    values = [item for (item,) in struct.iter_unpack({"i": "<i", "f": "<d", "h": "<f"}[kind], raw)]
    if "x" not in packed:
        return [None if value != value else float(value) for value in values]
    places = [item for (item,) in struct.iter_unpack("<i", b64decode(packed["x"]))]
    found: list[float | None] = [None] * count
    for place, value in zip(places, values, strict=True):
        found[place] = float(value)
    return found


def values_of(out: Path, key: str, metric: str) -> list[float]:
    """All values of a metric that a case's page has, in the order they were added."""
    found: list[float] = []
    for part in case_parts(out, key):
        column = next((one for one in part["metrics"] if one["name"] == metric), None)
        if column:
            found += [value for value in numbers(column["values"], part["n"]) if value is not None]
    return found
