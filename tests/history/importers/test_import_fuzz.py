"""Whatever happens to a file, reading it gives records that can be stored, or one line that names the file."""

import copy
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from history.importers.golden import FILES
from paceline.errors import HistoryError
from paceline.history import open_store
from paceline.history.importers import FORMATS, read

MEASUREMENT = "criterion/sorting/unstable/16/new"
SESSION = "curator/benchmark-run__2026-03-02_01-30-00_UTC"
ASV_RESULT = "856623c7-existing-py_opt_python_bin_python.json"
# What is read, and the file in it that is changed.
UNITS = [
    *((name, name) for name in ("pytest-benchmark/run.json", "pytest-benchmark/0001_plain.json")),
    *((name, name) for name in ("hyperfine/failing.json", "hyperfine/version-2.json", "pyperf/suite.json")),
    *((name, name) for name in ("google-benchmark/repetitions.json", "google-benchmark/aggregates.json")),
    *(
        (name, name)
        for name in ("github-action-benchmark/data.js", "records/unwritten.jsonl", "records/journal.jsonl")
    ),
    *((name, name) for name in ("lm-eval/results.json",)),
    *(
        ("asv", f"asv/{name}")
        for name in ("benchmarks.json", "testbox/machine.json", f"testbox/{ASV_RESULT}")
    ),
    *((MEASUREMENT, f"{MEASUREMENT}/{name}.json") for name in ("benchmark", "estimates", "sample")),
    *((SESSION, f"{SESSION}/{name}.json") for name in ("env", "score_filter_xenna/results")),
]

HOSTILE: list[Any] = [
    *(None, True, 0, -1, 1e308, float("nan"), float("-inf"), 10**400, 2**63, 0.5),
    *("", "x", "\0", "\ud800", "NaN", "null", "[1=2]", "../../x", "a" * 2000, "2026-13-45T99:99"),
    *([], {}, [[]], [None], {"": None}, [1, "x"], {"id": 1}, [[1, 2], [3]], {"value": {}}),
]
hostile = st.sampled_from(HOSTILE)
changes = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), hostile, st.booleans()), min_size=1, max_size=4
)


def nodes(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in a document with a key of it."""
    for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        if isinstance(item, dict | list):
            yield from nodes(item)


def changed(document: Any, plan: list[tuple[float, Any, bool]]) -> Any:
    document = copy.deepcopy(document)
    for where, new, is_removed in plan:
        places = list(nodes(document))
        if not places:
            break
        container, key = places[int(where * len(places))]
        if is_removed:
            del container[key]
        else:
            container[key] = copy.deepcopy(new)
    return document


def try_to_read(root: Path, format: str = "auto") -> None:
    """Read and store it; every fault must be one line with the path in it."""
    problems: list[str] = []
    try:
        found = list(read(root, format, on_problem=lambda problem: problems.append(str(problem))))
    except HistoryError as error:
        found = []
        problems.append(str(error))
    assert found or problems
    for problem in problems:
        assert "\n" not in problem
        assert str(root) in problem
    with open_store(root.parent / "history.db") as store:
        for batch in found:
            store.add(batch.session, batch.environment, batch.records)


def place(unit: str, name: str, tmp_path: Path) -> tuple[Path, Path]:
    """A copy of what is read, and in it the file that is to be changed."""
    root = tmp_path / Path(unit).name
    if not root.exists():
        source = FILES / unit
        shutil.copytree(source, root) if source.is_dir() else shutil.copy(source, root)
    return root, root / Path(name).relative_to(unit)


def split(text: str, suffix: str) -> tuple[str, list[str]]:
    """A file's beginning that is no JSON, and its documents."""
    start = text.index("{")
    return text[:start], text.splitlines() if suffix == ".jsonl" else [text[start:]]


@pytest.mark.parametrize(("unit", "name"), UNITS)
@settings(max_examples=20)
@given(plan=changes)
def test_changed_values(unit: str, name: str, plan: list[tuple[float, Any, bool]], tmp_path: Path) -> None:
    root, path = place(unit, name, tmp_path)
    prefix, documents = split((FILES / name).read_text(), path.suffix)
    path.write_text(prefix + "\n".join(json.dumps(changed(json.loads(text), plan)) for text in documents))
    try_to_read(root)


@pytest.mark.parametrize(("unit", "name"), UNITS)
@settings(max_examples=10)
@given(cut=st.floats(0, 1), junk=st.binary(max_size=8))
def test_changed_bytes(unit: str, name: str, cut: float, junk: bytes, tmp_path: Path) -> None:
    root, path = place(unit, name, tmp_path)
    data = (FILES / name).read_bytes()
    position = int(cut * len(data))
    for torn in (data[:position], data[:position] + junk + data[position + len(junk) :]):
        path.write_bytes(torn)
        try_to_read(root)


anything = st.recursive(
    hostile,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@pytest.mark.parametrize("format", [name for name in FORMATS if name != "session"])
@settings(max_examples=10)
@given(data=anything)
def test_anything_as_anything(format: str, data: Any, tmp_path: Path) -> None:
    path = tmp_path / "any.json"
    path.write_text(json.dumps(data))
    try_to_read(path, format)
