"""One contract for all executors: the same results, costs, rejects and errors."""

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paceline.curate import (
    LocalExecutor,
    Pipeline,
    PipelineError,
    RayActorExecutor,
    RayDataExecutor,
    Result,
    Stage,
    Task,
    XennaExecutor,
)
from paceline.curate.alm import ALMDataBuilderStage, ALMDataOverlapStage, ALMManifestReader
from paceline.curate.errors import InputRejected, StageFailed
from paceline.curate.minhash import MinHasher, MinHashStage
from paceline.curate.pipeline import Executor, RejectLog
from paceline.curate.readers import DocumentReader
from paceline.curate.removal import RemovalStage
from paceline.curate.similarity import group_similar
from paceline.curate.text_filters import ScoreFilterStage
from paceline.curate.text_modifiers import ModifierStage
from paceline.curate.writers import DocumentWriterStage

MAKERS: dict[str, Callable[[], Executor]] = {
    "local-here": lambda: LocalExecutor(workers=1),
    "local-fork": lambda: LocalExecutor(workers=2, start_method="fork"),
    "local-spawn": lambda: LocalExecutor(workers=2, start_method="spawn"),
    "ray_actors": RayActorExecutor,
    "ray_data": RayDataExecutor,
    "xenna-streaming": XennaExecutor,
    "xenna-batch": lambda: XennaExecutor(mode="batch"),
}


@pytest.fixture(
    params=[pytest.param(name, marks=[] if name.startswith("local") else pytest.mark.ray) for name in MAKERS]
)
def executor(request: pytest.FixtureRequest) -> Executor:
    if not request.param.startswith("local"):
        request.getfixturevalue("cluster")
    return MAKERS[request.param]()


class DropOdd(Stage):
    """Leaves nothing of a batch in which all numbers are odd."""

    def process(self, task: Task) -> Task | None:
        return None if task.data["number"] % 2 else task


class Trip(Stage):
    def process(self, task: Task) -> Task:
        return task.carrying(100 // (task.data["number"] - 33))


def talk(chance: random.Random, number: int) -> dict[str, Any]:
    now, segments = 0.0, []
    for _ in range(30):
        end = round(now + chance.uniform(1, 9), 2)
        segment = {
            "start": now,
            "end": end,
            "speaker": f"s{chance.randrange(3)}",
            "metrics": {"bandwidth": 9000},
        }
        segments.append(segment)
        now = round(end + chance.uniform(0, 2), 2)
    path = f"{number}.wav"
    return {"audio_filepath": path, "audio_sample_rate": 16000, "segments": segments, "number": number}


def write_manifest(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def stages(manifest: Path) -> list[Stage]:
    return [
        ALMManifestReader(str(manifest), range_bytes=20_000),
        ALMDataBuilderStage(target_window_duration=30.0),
        ALMDataOverlapStage(overlap_percentage=50, target_duration=30.0),
        DropOdd(),
    ]


def test_results_costs_and_rejects(executor: Executor, tmp_path: Path) -> None:
    chance = random.Random(5)
    entries = [talk(chance, number) for number in range(60)]
    lines = [json.dumps(entry) for entry in entries]
    no_path = {**entries[8], "audio_filepath": None}
    del no_path["audio_filepath"]
    lines[8] = json.dumps(no_path)
    lines[20] = lines[20][:-4]
    lines[31] = lines[31].replace('"end"', '"ende"', 1)
    manifest = write_manifest(tmp_path / "m.jsonl", lines)

    result = Pipeline("contract", stages(manifest)).run(executor)

    build, overlap = stages(manifest)[1:3]
    expected = []
    for number, entry in enumerate(entries):
        if number not in (8, 20, 31) and number % 2 == 0:
            expected.append(overlap.process(build.process(Task(data=entry))).data)  # type: ignore[arg-type, union-attr]
    found = sorted((task.data for task in result), key=lambda data: data["number"])
    assert found == expected

    log = RejectLog()
    log.add(result.rejects)
    log.write(tmp_path / "rejects.jsonl")
    rejects = [json.loads(line) for line in (tmp_path / "rejects.jsonl").read_text().splitlines()]
    assert [(reject["line"], reject["stage"]) for reject in rejects] == [
        (9, "alm_data_builder"),
        (21, "jsonl_reader"),
        (32, "alm_data_builder"),
    ]
    assert rejects[0]["reason"] == "audio_filepath is missing"
    assert rejects[2]["reason"] == "segments[0].end is missing"
    assert {reject["source"] for reject in rejects} == {str(manifest)}

    metrics = result.metrics()
    assert metrics["task_jsonl_reader_custom.entries_sum"] == 60
    assert metrics["task_alm_data_builder_num_items_processed_sum"] == 59
    assert metrics["task_DropOdd_num_items_processed_sum"] == 57
    size_mb = manifest.stat().st_size / 1_048_576
    assert metrics["task_jsonl_reader_input_data_size_mb_sum"] == pytest.approx(size_mb)
    assert all(task.stage_perf[-1].stage_name == "DropOdd" for task in result)


WORDS = "the day was long and the people that have come with us were to be out of the town by the water. "


def write_documents(home: Path) -> Path:
    """Lines and tables: copies, noise for filters and modifiers, ids to remove, and some that cannot be used."""
    chance = random.Random(3)
    texts = [
        " ".join(chance.choice(WORDS.split()) for _ in range(80)) + "." * (number % 3) for number in range(60)
    ]
    texts[5] = texts[4]
    texts[6] = texts[4].replace("day", "night", 1)
    texts[7] = "**Bold** " + texts[7] + "\n\n\n\nhttps://example.com/page"
    texts[8] = "too short"
    docs = home / "docs"
    docs.mkdir()
    lines = [json.dumps({"id": number, "text": text}) for number, text in enumerate(texts)]
    lines[9] = lines[9][:-3]
    (docs / "a.jsonl").write_text("\n".join(lines[:30]) + "\n")
    (docs / "b.jsonl.gz").write_bytes(gzip.compress("\n".join(lines[30:40]).encode()))
    rows = {"id": list(range(40, 60)), "text": [*texts[40:59], None]}
    pq.write_table(pa.table(rows), docs / "c.parquet", row_group_size=5)
    (home / "ids.jsonl").write_text('{"id": 3}\n{"id": 33}\n{"id": 43}\n')
    return docs


def clean(docs: Path, target: Path) -> list[Stage]:
    ids = str(docs.parent / "ids.jsonl")
    return [
        DocumentReader(str(docs), id_field="id", text_field="text", lines_bytes=4000, table_bytes=4000),
        RemovalStage(ids, id_field="id"),
        ModifierStage(text_field="text"),
        ScoreFilterStage(text_field="text"),
        DocumentWriterStage(str(target)),
    ]


def files_of(directory: Path) -> dict[str, Any]:
    return {
        str(file.relative_to(directory)): pq.read_table(file)
        if file.suffix == ".parquet"
        else file.read_bytes()
        for file in directory.rglob("*.*")
    }


def counts_of(result: Result) -> dict[str, float]:
    return {
        name: value
        for name, value in result.metrics().items()
        if name.endswith("_sum") and ("custom." in name or "num_items" in name)
    }


def test_documents_are_removed_modified_filtered_and_written(executor: Executor, tmp_path: Path) -> None:
    docs = write_documents(tmp_path)
    result = Pipeline("clean", clean(docs, tmp_path / "out")).run(executor)
    expected = Pipeline("clean", clean(docs, tmp_path / "expected")).run(LocalExecutor(workers=1))
    assert files_of(tmp_path / "out") == files_of(tmp_path / "expected")
    assert [task.data for task in result] == [task.data for task in expected]
    assert counts_of(result) == counts_of(expected)
    assert result.rejects == expected.rejects
    assert [reject.reason.split(":")[0] for reject in result.rejects] == ["not JSON", "text is missing"]
    assert result.metrics()["task_removal_custom.removed_sum"] == 3
    assert result.metrics()["task_modifier_custom.urls_sum"] == 1
    assert result.metrics()["task_score_filter_custom.word_count_sum"] == 1


def test_duplicates_are_found(executor: Executor, tmp_path: Path) -> None:
    reader = DocumentReader(
        str(write_documents(tmp_path)), id_field="id", text_field="text", lines_bytes=4000, table_bytes=4000
    )
    stage = MinHashStage(MinHasher(num_perm=64), text_field="text", id_field="id")
    batches = [task.data for task in Pipeline("fuzzy", [reader, stage]).run(executor)]
    ids = pa.concat_arrays([batch.ids for batch in batches]).to_pylist()
    assert ids == [number for number in range(60) if number not in (9, 59)]
    kept = group_similar(np.concatenate([batch.values for batch in batches]), bands=16, threshold=0.7)
    assert {ids[at]: ids[first] for at, first in enumerate(kept) if at != first} == {5: 4, 6: 4}


class Picky(Stage):
    def setup(self) -> None:
        raise PipelineError("the list of words is not there")


def test_a_stage_that_cannot_be_set_up_says_why(executor: Executor) -> None:
    tasks = [Task(data={"number": number}) for number in range(200)]
    with pytest.raises(PipelineError, match="the list of words is not there"):
        Pipeline("picky", [Picky()]).run(executor, tasks)


def test_a_batch_with_nothing_left_is_counted_and_given_tasks_are_run(executor: Executor) -> None:
    odd = [Task(data={"number": number}) for number in range(1, 200, 2)]
    result = Pipeline("odd", [DropOdd(), DropOdd()]).run(executor, odd)
    assert (len(result), len(result.rejects)) == (0, 0)
    assert result.metrics()["task_DropOdd_num_items_processed_sum"] == 100


def test_an_error_names_stage_and_input(executor: Executor) -> None:
    tasks = [Task(data={"number": number}, task_id=f"number {number}") for number in range(100)]
    with pytest.raises(StageFailed, match="stage Trip failed on number 33: ZeroDivisionError"):
        Pipeline("trip", [Trip()]).run(executor, tasks)


def test_a_reject_ends_the_run_if_so_configured(executor: Executor, tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path / "m.jsonl", ['{"number": 2}', "{", '{"number": 4}'])
    pipeline = Pipeline("fail", [ALMManifestReader(str(manifest)), DropOdd()])
    with pytest.raises(InputRejected, match=r"m\.jsonl:2: not JSON"):
        pipeline.run(executor, on_error="fail")


def test_no_tasks_are_no_results(executor: Executor) -> None:
    assert len(Pipeline("empty", [DropOdd()]).run(executor, [])) == 0


@pytest.mark.ray
def test_a_private_cluster_listens_on_loopback_only(cluster: None) -> None:
    psutil = pytest.importorskip("psutil")
    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    open_to_all = [
        (process.name(), found.laddr)
        for process in family
        if process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        for found in process.net_connections(kind="inet")
        if found.status == psutil.CONN_LISTEN
        and found.laddr.ip.removeprefix("::ffff:") not in ("127.0.0.1", "::1")
    ]
    assert not open_to_all
