"""Reading and writing batches of documents."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
import numpy as np  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from paceline.curate import LocalExecutor, Pipeline, PipelineError, Result  # noqa: E402
from paceline.curate.readers import DocumentReader  # noqa: E402
from paceline.curate.writers import DocumentWriterStage, list_output, prepare_output  # noqa: E402


def copy(source: Path, target: Path, *, workers: int = 1, **options: Any) -> Result:
    stages = [DocumentReader(str(source), **options), DocumentWriterStage(str(target))]
    return Pipeline("copy", stages).run(LocalExecutor(workers=workers))


def lines_of(directory: Path) -> list[bytes]:
    return [
        line for file in sorted(directory.rglob("*.jsonl")) for line in file.read_bytes().splitlines(True)
    ]


def test_lines_keep_their_bytes_and_a_small_file_its_name(tmp_path: Path) -> None:
    source = tmp_path / "in" / "deep"
    source.mkdir(parents=True)
    content = b'{"id":  1, "text": "a\\u00e4"}\n\n{"text":"b","id":2 }\n'
    (source / "a.jsonl").write_bytes(content)
    copy(tmp_path / "in", tmp_path / "out", id_field="id", text_field="text")
    assert (tmp_path / "out" / "deep" / "a.jsonl").read_bytes() == content.replace(b"\n\n", b"\n")


@settings(max_examples=15, deadline=None)
@given(
    texts=st.lists(st.text(max_size=30), min_size=1, max_size=40), cut=st.integers(min_value=1, max_value=200)
)
def test_ranges_of_any_size_give_every_line_once(
    texts: list[str], cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("ranges")
    records = [{"id": number, "text": text} for number, text in enumerate(texts)]
    whole = "".join(json.dumps(record) + "\n" for record in records).encode()
    (home / "in.jsonl").write_bytes(whole)
    (home / "in.jsonl.gz").write_bytes(gzip.compress(whole))
    for name, suffix in (("in.jsonl", "plain"), ("in.jsonl.gz", "packed")):
        copy(home / name, home / suffix, id_field="id", lines_bytes=cut)
    assert b"".join(lines_of(home / "plain")) == whole
    packed = sorted((home / "packed").glob("*.gz"))
    assert b"".join(gzip.decompress(file.read_bytes()) for file in packed) == whole


def test_parquet_is_cut_at_row_groups_and_keeps_schema_and_compression(tmp_path: Path) -> None:
    table = pa.table(
        {"id": list(range(100)), "text": [f"text {n}" * 20 for n in range(100)], "x": [1.5] * 100}
    )
    (tmp_path / "in").mkdir()
    pq.write_table(table, tmp_path / "in" / "t.parquet", row_group_size=10, compression="zstd")
    copy(tmp_path / "in", tmp_path / "out", id_field="id", table_bytes=2000)
    files = sorted((tmp_path / "out").glob("*.parquet"))
    assert len(files) > 1
    assert pa.concat_tables(pq.read_table(file) for file in files).equals(table)
    assert pq.ParquetFile(files[0]).metadata.row_group(0).column(0).compression == "ZSTD"
    copy(tmp_path / "in", tmp_path / "whole", id_field="id", files_per_partition=1)
    assert pq.read_table(tmp_path / "whole" / "t.parquet").equals(table)


def test_views_of_strings_are_read_as_strings(tmp_path: Path) -> None:
    table = pa.table({"id": pa.array(["a", None], pa.string_view()), "text": pa.array(["x", "y"])})
    pq.write_table(table, tmp_path / "v.parquet")
    copy(tmp_path / "v.parquet", tmp_path / "out", id_field="id")
    assert pq.read_table(tmp_path / "out" / "v.parquet").to_pylist() == [{"id": "a", "text": "x"}]


def test_bad_lines_are_rejected_and_counted(tmp_path: Path) -> None:
    bad = [
        b'{"id": 1, "text": "good"}',
        b"{nonsense",
        b'{"id": 2}',
        b'{"id": 3, "text": 7}',
        b'{"text": "no id"}',
        b'{"id": 1.5, "text": "float"}',
        b'{"id": true, "text": "bool"}',
        b"[1]",
        b'{"id": 4, "text": "\xff"}',
    ]
    (tmp_path / "in.jsonl").write_bytes(b"\n".join(bad))
    result = copy(tmp_path / "in.jsonl", tmp_path / "out", id_field="id", text_field="text")
    assert [reject.reason.split(":")[0] for reject in result.rejects] == [
        "not JSON",
        "text is missing",
        "text is no string",
        "id is missing",
        "id is no string or integer",
        "id is no string or integer",
        "the line is not a JSON object",
        "not UTF-8",
    ]
    assert lines_of(tmp_path / "out") == [bad[0] + b"\n"]
    read = sum(perf.custom_metrics.get("documents", 0) for perf in result.perf if "reader" in perf.stage_name)
    assert read == len(bad)


def test_bad_parquet_is_rejected_and_the_rest_goes_on(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.parquet").write_bytes(b"PAR1 not really")
    pq.write_table(pa.table({"id": [1.5], "text": ["x"]}), source / "b.parquet")
    pq.write_table(pa.table({"text": ["x"]}), source / "c.parquet")
    pq.write_table(pa.table({"id": [1, None, 3], "text": ["x", "y", None]}), source / "d.parquet")
    result = copy(source, tmp_path / "out", id_field="id", text_field="text")
    where = [(Path(r.origin.path).name, r.origin.line, r.reason) for r in result.rejects if r.origin]
    assert where[0][0] == "a.parquet" and "Parquet" in where[0][2]
    assert where[1] == ("b.parquet", None, "column id holds double, not strings or integers")
    assert where[2] == ("c.parquet", None, "there is no column id")
    assert where[3:] == [("d.parquet", 2, "id is missing"), ("d.parquet", 3, "text is missing")]
    assert pq.read_table(tmp_path / "out").to_pylist() == [{"id": 1, "text": "x"}]


def test_a_damaged_archive_is_rejected(tmp_path: Path) -> None:
    whole = gzip.compress(b'{"id": 1}\n' * 5000)
    (tmp_path / "in.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    result = copy(tmp_path / "in.jsonl.gz", tmp_path / "out", id_field="id")
    assert "cannot be unpacked" in result.rejects[0].reason


def test_output_of_an_earlier_run_is_replaced_and_foreign_files_refused(tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    (source / "a.jsonl").write_text('{"id": 1}\n')
    prepare_output(str(target), str(source))
    result = copy(source, target, id_field="id")
    list_output(str(target), (task.data["file"] for task in result))
    (target / f".b.jsonl.{'0' * 32}").write_text("half a file that somebody was killed over")
    prepare_output(str(target), str(source))
    assert [file.name for file in target.iterdir()] == ["_unfinished.json"]
    (target / "a.jsonl").write_text("{}\n")
    with pytest.raises(PipelineError, match=r"out: an earlier run into it did not end, .*a\.jsonl"):
        prepare_output(str(target), str(source))
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.jsonl").write_text("{}\n")
    with pytest.raises(PipelineError, match="in the way"):
        prepare_output(str(other), str(source))
    with pytest.raises(PipelineError, match="lies in the input"):
        prepare_output(str(source / "out"), str(source))


def test_a_listing_takes_away_nothing_outside(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for name in ("mine.jsonl", "out/a.jsonl"):
        (tmp_path / name).write_text("{}\n")
    names = ["../mine.jsonl", str(tmp_path / "mine.jsonl"), "a.jsonl"]
    (tmp_path / "out" / "_written.json").write_text(json.dumps(names))
    prepare_output(str(tmp_path / "out"))
    assert (tmp_path / "mine.jsonl").exists() and not (tmp_path / "out" / "a.jsonl").exists()


def test_a_changed_field_is_written_and_other_lines_stay(tmp_path: Path) -> None:
    from paceline.curate.documents import LineDocuments, Source, TableDocuments
    from paceline.curate.writers import write_documents

    source = Source(name="a.jsonl", path="a.jsonl", start=0, whole=True)
    lines = LineDocuments(
        lines=[b'{"t": "a" }', b'{"t": "b" }'], records=[{"t": "a"}, {"t": "b"}], source=source
    )
    write_documents(lines.with_fields({"t": ["a", "c"]}), str(tmp_path / "a.jsonl"))
    assert (tmp_path / "a.jsonl").read_bytes() == b'{"t": "a" }\n{"t":"c"}\n'
    table = TableDocuments(table=pa.table({"t": ["a", "b"]}), source=source)
    changed = table.with_fields({"t": ["x", "y"], "n": [1, 2]}).keep(np.array([False, True]))
    assert changed.table.to_pylist() == [{"t": "y", "n": 2}]
    write_documents(changed, str(tmp_path / "b.jsonl"))
    assert (tmp_path / "b.jsonl").read_bytes() == b'{"t":"y","n":2}\n'
