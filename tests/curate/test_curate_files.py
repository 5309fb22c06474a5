"""Byte ranges and the lines that begin in them."""

import gzip
import json
import random
from pathlib import Path

import pytest

from paceline.curate import LocalExecutor, Pipeline, PipelineError
from paceline.curate.alm import ALMManifestReader
from paceline.curate.files import FileRange, LineNumbers, cut, list_files, read_block
from paceline.curate.jsonl import JsonlReaderStage, dump_lines
from paceline.curate.pipeline import numbered


@pytest.mark.parametrize("seed", range(20))
def test_every_line_belongs_to_exactly_one_range(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    lines = [b"x" * chance.choice([0, 1, 3, 10, 200]) for _ in range(chance.randrange(60))]
    content = b"\n".join(lines) + (b"\n" if chance.random() < 0.5 else b"")
    path = tmp_path / "f.jsonl"
    path.write_bytes(content)
    for range_bytes in (1, 2, 7, 64, 10_000):
        found = {}
        for part in cut(str(path), len(content), range_bytes):
            block = read_block(part)
            offset = block.offset
            for line in block.lines:
                if line:
                    assert offset not in found
                    found[offset] = line
                offset += len(line) + 1
        expected, offset = {}, 0
        for line in content.split(b"\n"):
            if line:
                expected[offset] = line
            offset += len(line) + 1
        assert found == expected


def test_a_line_over_the_limit_is_rejected_and_its_neighbours_are_not(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text('{"a": 1}\n{"b": "' + "x" * 5_000_000 + '"}\n{"c": 3}\n')
    pipeline = Pipeline("p", [ALMManifestReader(str(path), range_bytes=100_000, max_line_bytes=1_000_000)])
    result = pipeline.run(LocalExecutor(workers=1))
    assert [task.data for task in result] == [{"a": 1}, {"c": 3}]
    (reject,) = numbered(result.rejects)
    assert (str(reject.origin), reject.reason) == (f"{path}:2", "the line is longer than 1000000 bytes")


BAD_LINES = [
    (b'{"a": NaN}', "not JSON"),
    (b'{"a": 1e999}', "not JSON"),
    (b'{"a": 1', "not JSON"),
    (b'{"a": "\xff"}', "not UTF-8: byte 8 of the line"),
    (b"[1, 2]", "the line is not a JSON object"),
    (b"[" * 5000, "not JSON"),
    (b'{"a": ' + b"9" * 5000 + b"}", "not JSON: Exceeds the limit"),
    (b'{"a": 1234567890123456789012, "b": NaN}', "not JSON: NaN is no number of JSON"),
    (b'{"a": 1234567890123456789012, "b": 1e999}', "not JSON: 1e999 is beyond the range"),
    (b'{"a": 1234567890123456789012, ', "not JSON"),
    (b'{"a": 1234567890123456789012, "b": ' + b"[" * 90_000, "not JSON: maximum recursion depth"),
]


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_bad_lines_are_rejected_by_number_and_the_rest_is_read(tmp_path: Path, ending: str) -> None:
    good = b'{"ok": true}'
    content = b"\r\n\n".join([good, *(line for line, _ in BAD_LINES), good]) + b"\n"
    path = tmp_path / f"m.jsonl{ending}"
    zstandard = pytest.importorskip("zstandard")
    pack = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.ZstdCompressor().compress}[ending]
    path.write_bytes(pack(content))
    result = Pipeline("p", [ALMManifestReader(str(path), range_bytes=16)]).run(LocalExecutor(workers=1))
    assert [task.data for task in result] == [{"ok": True}] * 2
    found = [(reject.origin.line, reject.reason) for reject in numbered(result.rejects) if reject.origin]
    assert [line for line, _ in found] == [3 + 2 * place for place in range(len(BAD_LINES))]
    for (_, reason), (_, expected) in zip(found, BAD_LINES, strict=True):
        assert reason.startswith(expected)


def test_repeats_are_read_anew_and_shared_out(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text('{"a": 1}\n{"a": 2}\n')
    stage = ALMManifestReader(str(path), repeat_factor=10, range_bytes=40)
    partition, reader = stage.decompose()
    units = list(partition.process_batch([next(iter(Pipeline("p", [stage]).run(LocalExecutor())))]))
    assert sum(unit.data.repeats for unit in units) == 10 and len(units) == 5  # type: ignore[union-attr]
    result = Pipeline("p", [stage]).run(LocalExecutor(workers=1))
    assert [task.data["a"] for task in result] == [1, 2] * 10
    assert len({id(task.data) for task in result}) == 20
    assert isinstance(reader, JsonlReaderStage)


def test_directories_are_searched_in_a_fixed_order(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.json", "sub/c.jsonl.gz", "note.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    found = [Path(path).name for path, _ in list_files([str(tmp_path)], (".jsonl", ".json"))]
    assert found == ["a.json", "b.jsonl", "c.jsonl.gz"]


def test_files_in_memory_are_read_through_fsspec() -> None:
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open("memory://manifests/m.jsonl", "wb") as file:
        file.write(b'{"a": 1}\n' * 100)
    reader = ALMManifestReader("memory://manifests/m.jsonl", range_bytes=90)
    assert len(Pipeline("p", [reader]).run(LocalExecutor(workers=1))) == 100


def test_missing_and_empty_inputs_are_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"nowhere\.jsonl: no such file"):
        Pipeline("p", [ALMManifestReader(str(tmp_path / "nowhere.jsonl"))]).run(LocalExecutor())
    with pytest.raises(PipelineError, match="no file with"):
        Pipeline("p", [ALMManifestReader(str(tmp_path))]).run(LocalExecutor())


def test_line_numbers_can_be_asked_for_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"a\nbb\n\nccc\n")
    lines = LineNumbers(str(path))
    assert [lines.at(offset) for offset in (0, 6, 2, 5)] == [1, 4, 2, 3]
    assert FileRange(path="f", start=0, end=1).repeats == 1


def test_integers_of_any_size_are_kept_exactly(tmp_path: Path) -> None:
    numbers = [2**63, 2**64 - 1, 2**64, -(2**70), 10**400, 0.12345678901234567890123]
    path = tmp_path / "m.jsonl"
    path.write_text("".join(json.dumps({"n": number, "d": {"é": [number]}}) + "\n" for number in numbers))
    result = Pipeline("p", [ALMManifestReader(str(path))]).run(LocalExecutor(workers=1))
    assert [task.data["n"] for task in result] == numbers
    written = dump_lines([task.data for task in result])
    assert [json.loads(line) for line in written.splitlines()] == [task.data for task in result]
