"""Readers and writers on an object store that is really there."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from object_store import ObjectStore, s3, start_store, use_store
from paceline.curate import LocalExecutor, Pipeline, PipelineError, Result, Stage
from paceline.curate.alm import ALMManifestReader
from paceline.curate.crawl import WarcDownloadStage, WarcListStage, WarcTextStage
from paceline.curate.errors import StageFailed
from paceline.curate.files import FilePartitionStage
from paceline.curate.pipeline import RejectLog
from paceline.curate.readers import DocumentReader
from paceline.curate.writers import DocumentWriterStage, list_output, make_record, pack_record, prepare_output

__all__ = ["s3"]

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
HERE = LocalExecutor(workers=1)
PACKERS = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.ZstdCompressor().compress}


def put(address: str, content: bytes) -> str:
    with fsspec.open(address, "wb") as file:
        file.write(content)
    return address


def names(address: str) -> list[str]:
    system, root = fsspec.core.url_to_fs(address)
    system.invalidate_cache()
    return [name.removeprefix(f"{root}/") for name in sorted(system.find(root))]


def lines(count: int) -> bytes:
    return b"".join(b'{"id": %d, "text": "%s"}\n' % (at, b"word " * (at % 40)) for at in range(count))


def copy(source: str, target: str, *, workers: int = 1, **options: Any) -> Result:
    stages = [DocumentReader(source, id_field="id", **options), DocumentWriterStage(target)]
    return Pipeline("copy", stages).run(LocalExecutor(workers=workers))


def test_lines_of_every_packing_go_from_store_to_store(s3: str) -> None:
    whole = lines(500)
    for tail, pack in PACKERS.items():
        put(f"{s3}/in/deep/a.jsonl{tail}", pack(whole))
    result = copy(f"{s3}/in", f"{s3}/out")
    assert sorted(task.data["file"] for task in result) == [f"deep/a.jsonl{tail}" for tail in sorted(PACKERS)]
    for tail in PACKERS:
        with fsspec.open(f"{s3}/out/deep/a.jsonl{tail}", "rb", compression="infer") as file:
            assert file.read() == whole


def test_one_large_file_is_read_in_parallel_and_every_line_once(s3: str) -> None:
    whole = lines(5000)
    put(f"{s3}/in.jsonl", whole)
    result = copy(f"{s3}/in.jsonl", f"{s3}/out", workers=2, lines_bytes=50_000)
    assert len(result) > 5
    system, root = fsspec.core.url_to_fs(f"{s3}/out")
    system.invalidate_cache()
    assert b"".join(system.cat_file(name) for name in sorted(system.find(root))) == whole


def test_a_range_fetches_little_more_than_itself(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import s3fs

    address = put(f"{s3}/in.jsonl", (b'{"a": "%s"}\n' % (b"x" * 890)) * 10_000)
    fetched: list[int] = []
    fetch = s3fs.core.S3File._fetch_range

    def counted(self: Any, start: int, end: int) -> bytes:
        data: bytes = fetch(self, start, end)
        fetched.append(len(data))
        return data

    monkeypatch.setattr(s3fs.core.S3File, "_fetch_range", counted)
    partition = FilePartitionStage(address, suffixes=(".jsonl",), range_bytes=1_000_000)
    assert partition.input_bytes() == 9_000_000
    result = Pipeline("p", [ALMManifestReader(address, range_bytes=1_000_000)]).run(HERE)
    assert len(result) == 10_000
    assert sum(fetched) < 1.2 * 9_000_000


def test_tables_are_cut_at_row_groups_and_keep_their_schema(s3: str) -> None:
    table = pa.table({"id": list(range(1000)), "text": [f"text {n}" * 20 for n in range(1000)]})
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer, row_group_size=100, compression="zstd")
    put(f"{s3}/in/t.parquet", buffer.getvalue().to_pybytes())
    copy(f"{s3}/in", f"{s3}/whole")
    copy(f"{s3}/in", f"{s3}/cut", workers=2, table_bytes=20_000)
    system = fsspec.core.url_to_fs(s3)[0]
    assert pq.read_table("bench/whole/t.parquet", filesystem=system).equals(table)
    assert len(names(f"{s3}/cut")) > 2
    assert pq.read_table("bench/cut", filesystem=system).equals(table)


def warc_stages(source: str, target: str, **options: Any) -> list[Stage]:
    return [
        WarcListStage(source, **options),
        WarcDownloadStage("nowhere"),
        WarcTextStage(),
        DocumentWriterStage(target, file_format="warc"),
    ]


def test_an_archive_is_read_in_place_and_written(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from uuid import UUID

    from paceline.curate import warc

    monkeypatch.setattr(warc, "LEAD_BYTES", 2000)
    page = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>It was a bright cold day. %d</p>"
    members = [
        pack_record(make_record("response", page % at, identity=UUID(int=at), date="", url=f"http://a/{at}"))
        for at in range(200)
    ]
    put(f"{s3}/crawl/a.warc.gz", b"".join(members))
    result = Pipeline("p", warc_stages(f"{s3}/crawl", f"{s3}/text", range_bytes=5000)).run(HERE)
    assert len(result) > 3 and sum(task.data["documents"] for task in result) == 200
    system, root = fsspec.core.url_to_fs(f"{s3}/text")
    records = [
        record.headers["warc-target-uri"]
        for name in sorted(system.find(root))
        for record in warc.read_warc(system.open(name, "rb"))
        if isinstance(record, warc.WarcRecord)
    ]
    assert records == [f"http://a/{at}" for at in range(200)]
    listing = put(f"{s3}/list.txt", f"{s3}/crawl/a.warc.gz\n{s3}/crawl/none.warc.gz\n".encode())
    result = Pipeline("p", warc_stages(listing, f"{s3}/again")).run(HERE)
    assert sum(task.data["documents"] for task in result) == 200
    assert [reject.reason[:14] for reject in result.rejects] == ["cannot be read"]


def test_rejects_name_lines_of_remote_files(s3: str, tmp_path: Path) -> None:
    address = put(f"{s3}/m.jsonl", b'{"id": 1}\n{broken\n{"id": 2}\n')
    log = RejectLog()
    log.add(Pipeline("p", [ALMManifestReader(address)]).run(HERE).rejects)
    log.write(tmp_path / "rejects.jsonl")
    found = json.loads((tmp_path / "rejects.jsonl").read_text())
    assert (found["source"], found["line"]) == (address, 2)


def test_output_of_an_earlier_run_is_replaced_and_that_of_others_refused(s3: str) -> None:
    source, target = f"{s3}/in", f"{s3}/out"
    put(f"{source}/a.jsonl", lines(3))
    prepare_output(target, source)
    list_output(target, (task.data["file"] for task in copy(source, target)))
    assert names(target) == ["_written.json", "a.jsonl"]
    prepare_output(target, source)
    assert names(target) == ["_unfinished.json"]
    put(f"{target}/left.jsonl", b"{}\n")
    with pytest.raises(PipelineError, match=r"did not end, s3://bench/out/left\.jsonl"):
        prepare_output(target, source)
    put(f"{s3}/other/mine.jsonl", b"{}\n")
    with pytest.raises(PipelineError, match="in the way"):
        prepare_output(f"{s3}/other", source)
    with pytest.raises(PipelineError, match="lies in the input"):
        prepare_output(f"{source}/out", source)


def test_places_that_are_not_there_are_named(s3: str) -> None:
    for address in (f"{s3}/nothing", "s3://no-such-bucket/x.jsonl"):
        with pytest.raises(PipelineError, match="no such file or directory"):
            Pipeline("p", [ALMManifestReader(address)]).run(HERE)
    with pytest.raises(PipelineError, match=r"gopher://a: .*not known"):
        Pipeline("p", [ALMManifestReader("gopher://a")]).run(HERE)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Any:
    found = start_store()
    use_store(found, monkeypatch)
    yield found
    found.close()


def test_a_store_that_goes_away_is_named(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    address = put("s3://bench/m.jsonl", lines(10))
    store.take_down()
    with pytest.raises(PipelineError, match=r"s3://bench/m\.jsonl: cannot be listed"):
        Pipeline("p", [ALMManifestReader(address)]).run(HERE)
    with pytest.raises(PipelineError, match=r"s3://bench/out/.*: cannot be (read|written|listed)"):
        prepare_output("s3://bench/out")
    with pytest.raises((PipelineError, StageFailed), match=r"document_writer|cannot be written"):
        copy_local_to("s3://bench/out")
    store.bring_up()


def copy_local_to(target: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as home:
        (Path(home) / "a.jsonl").write_bytes(lines(3))
        copy(home, target)


@pytest.mark.parametrize("script", ["exact_dedup", "removal"])
def test_the_benchmarks_run_from_store_to_store(s3: str, tmp_path: Path, script: str) -> None:
    put(f"{s3}/docs/a.jsonl", lines(40) + lines(40))
    put(f"{s3}/ids.jsonl", lines(10))
    words = [
        "--benchmark-results-path",
        tmp_path,
        "--input-path",
        f"{s3}/docs",
        "--output-path",
        f"{s3}/kept",
    ]
    words += ["--ids-to-remove-path", f"{s3}/ids.jsonl"] if script == "removal" else []
    command = [sys.executable, BENCHMARKS / "scripts" / f"{script}_benchmark.py", *words]
    for _ in range(2):
        ran = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["num_input_documents"] == 80
    assert metrics["num_output_documents"] == {"exact_dedup": 40, "removal": 60}[script]
    expected = {"exact_dedup": ["_duplicates.parquet", "_written.json", "a.jsonl"]}
    assert names(f"{s3}/kept") == expected.get(script, ["_written.json", "a.jsonl"])
