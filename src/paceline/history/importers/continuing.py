"""An imported past that goes on here: its tests by the names that they have in a suite, on a machine like this one."""

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from paceline.errors import HistoryError
from paceline.history.importers import coiled
from paceline.history.importers.batch import make_case
from paceline.history.session_info import Batch
from paceline.model import Record, Scalar
from paceline.record import below, codec
from paceline.record.environment import IN_PART, Environment, major_minor

_COLLECTOR = "paceline.pytest_plugin.collecting"
_PATIENCE_S = 600
_ID = "id"
_SHOWN = 5
_LASTING = ("machine", "kernel", "os", "cpu", "memory_bytes", "swap_bytes", "container", "gpus", "gpu_driver")


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """The tests of a suite: the entry and parameters of each, by its file below `directory` and its name in pytest.

    `prefix` is what the directory is called in the names of entries.
    """

    directory: Path
    prefix: str
    tests: Mapping[tuple[str, str], tuple[str, Mapping[str, Scalar]]]


def collect(directory: Path) -> Suite:
    """The tests that pytest finds in a directory, with the names that they have in records of `--benchmark`."""
    if not directory.is_dir():
        raise HistoryError(
            f"--as-suite: there is no directory {directory}: name the one that holds the tests"
        )
    with tempfile.TemporaryDirectory() as place:
        found = Path(place, "tests.json")
        words = [sys.executable, "-m", _COLLECTOR, str(found), str(directory)]
        try:
            done = subprocess.run(
                words, check=False, capture_output=True, text=True, errors="replace", timeout=_PATIENCE_S
            )
        except subprocess.TimeoutExpired as error:
            raise HistoryError(
                f"--as-suite: pytest takes longer than {_PATIENCE_S} s to collect tests"
            ) from error
        if done.returncode or not found.exists():
            said = [line.strip() for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
            why = next(
                (line for line in said if line.startswith("E ")), said[-1] if said else "it said nothing"
            )
            raise HistoryError(f"--as-suite: pytest could not collect the tests of {directory}: {why}")
        told = codec.load(below.read(Path(place), found.name, codec.MAX_RECORD_BYTES))
    tests = {(one["path"], one["name"]): (one["entry"], one["params"]) for one in told["tests"]}
    return Suite(directory=directory, prefix=told["prefix"], tests=tests)


@dataclass(slots=True, kw_only=True)
class Continuation:
    """Makes imported records a past of what is measured here; what it could not do is in `notes`."""

    suite: Suite | None = None
    here: Environment | None = None
    _unknown: set[str] = field(default_factory=set)
    _pythons: Counter[str] = field(default_factory=Counter)
    _cpus: Counter[str] = field(default_factory=Counter)

    def apply(self, batch: Batch) -> Batch:
        """The batch by the suite's names, and as if it was measured here."""
        if self.suite is not None:
            if batch.session.tool != coiled.FORMAT:
                raise HistoryError(
                    f"--as-suite is for a benchmark.db of Coiled's; results of {batch.session.tool} have names already"
                )
            batch = replace(batch, records=tuple(map(self._renamed, batch.records)))
        if self.here is None:
            return batch
        environments = [self._moved(self.here, one) for one in (batch.environment, *batch.others)]
        ids = dict(
            zip(
                [str(one.get("id") or "") for one in (batch.environment, *batch.others)],
                [str(one["id"]) for one in environments],
                strict=True,
            )
        )
        records = tuple(
            replace(record, environment=ids.get(record.environment, environments[0]["id"]))
            for record in batch.records
        )
        return replace(batch, environment=environments[0], others=environments[1:], records=records)

    def _renamed(self, record: Record) -> Record:
        assert self.suite is not None
        path, name = str(record.details.get("path", "")), str(record.details["test_name"])
        found = self.suite.tests.get((path, name))
        if found is None:
            self._unknown.add(f"{path}::{name}" if path else name)
            entry, params = f"{self.suite.prefix}{record.case.entry}", record.case.params
        else:
            # What is not in the brackets of a test's name, such as the size of its data, stays.
            entry, known = found
            params = {**known, **{key: value for key, value in record.case.params.items() if key != _ID}}
        details = {**record.details, **({"path": f"{self.suite.prefix}{path}"} if path else {})}
        return replace(record, case=make_case(entry, params, variant=record.case.variant), details=details)

    def _moved(self, here: Environment, environment: Mapping[str, Any]) -> dict[str, Any]:
        """An environment with this machine in it, and with the Python and the packages that it had."""
        python = environment.get("python") or here.data.get("python", {})
        there, ours = major_minor(str(python.get("version", ""))), here.data["comparable"]["python"]
        self._pythons.update([there] if there and there != ours else [])
        cpu = (environment.get("cpu") or {}).get("model")
        self._cpus.update([cpu] if cpu and cpu != here.data["comparable"]["cpu"] else [])
        facts = {
            **{name: here.data[name] for name in ("platform", *_LASTING) if name in here.data},
            "python": python,
            "packages": environment.get("packages") or {},
            "assumed": "measured on a machine like the one it was imported on",
        }
        comparable = {**here.data["comparable"], "python": there or ours}
        ids = {"id": codec.digest(facts), "class_id": codec.digest(comparable)}
        return {**ids, **facts, "comparable": comparable, IN_PART: True}

    def notes(self) -> Iterator[str]:
        """What does not go on, and why."""
        if self._unknown and self.suite is not None:
            yield (
                f"{_listed(sorted(self._unknown))}: not in {self.suite.directory} (any more), "
                f"so what is in brackets stays one parameter {_ID!r}"
            )
        for python, count in self._pythons.items():
            yield (
                f"{count} sessions ran under Python {python}, which is not the one here: "
                "they are series of their own"
            )
        for cpu, count in self._cpus.items():
            yield f"{count} sessions ran on {cpu}, and count as measured on the CPU here, as --machine says"


def _listed(names: Sequence[str]) -> str:
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{rest}"
