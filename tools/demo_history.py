"""Makes a history to look at: 120 nights of a made-up library, with regressions, breaks, machines and a repository.

    python tools/demo_history.py demo                 into demo/: benchmark.db, results/, repo/
    paceline dashboard build demo/site --db demo/benchmark.db --results-dir demo/results --repo demo/repo

All of it is the same each time: the pictures in docs/ are made from it.
"""

import argparse
import math
import os
import random
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from demo_evals import add_evals

from paceline.findings.commits import Repository
from paceline.findings.detection import detect
from paceline.history import SessionInfo, Store, open_store
from paceline.history.findings import add_verdict, read_findings
from paceline.history.session_info import session_id
from paceline.model import Case, Check, Measurement, Plan, Record, Status
from paceline.record.directory import SessionDir

NIGHTS = 120
FIRST = datetime(2026, 7, 19, 1, 30, tzinfo=UTC)
SAMPLES = 5
GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A benchmark of the demo: its usual time and memory, and by what they are multiplied from which night on."""

    key: str
    seconds: float
    gib: float
    rows: float = 2e6
    noise: float = 0.012
    tags: tuple[str, ...] = ()
    steps: tuple[tuple[int, float], ...] = ()
    memory_steps: tuple[tuple[int, float], ...] = ()
    stages: tuple[str, ...] = ()
    gpu: bool = False
    source: bool = False

    @property
    def name(self) -> str:
        return self.key.partition("[")[0]


def _joins() -> Iterator[Bench]:
    for engine, factor in (("dask", 1.7), ("polars", 1.0)):
        for size, seconds in (("small", 1.2), ("medium", 6.5), ("large", 38.0)):
            slow = ((88, 1.145),) if engine == "dask" else ()
            fat = ((88, 1.31),) if engine == "dask" else ()
            key = f"join[engine={engine},size={size}]"
            yield Bench(
                key=key,
                seconds=seconds * factor,
                gib=seconds / 12,
                tags=("dataframe", engine),
                steps=slow,
                memory_steps=fat,
            )


def benches() -> list[Bench]:
    tpch = [
        Bench(
            key=f"tpch_q{number}",
            seconds=2 + number * 1.3,
            gib=1.5 + number / 4,
            tags=("sql",),
            steps=((60, 0.79),) if number in (3, 9) else (),
        )
        for number in (1, 3, 5, 6, 9)
    ]
    return [
        *_joins(),
        *tpch,
        Bench(key="sort[n=100000]", seconds=0.21, gib=0.2, tags=("quick",), source=True, noise=0.02),
        Bench(
            key="sort[n=10000000]", seconds=4.8, gib=1.4, tags=("quick",), source=True, steps=((104, 1.062),)
        ),
        Bench(
            key="tokenize", seconds=12.0, gib=0.9, tags=("text",), steps=((30, 1.25), (43, 1.0)), noise=0.02
        ),
        Bench(
            key="exact_dedup",
            seconds=21,
            gib=3.1,
            tags=("curation",),
            stages=("reader", "hash", "shuffle", "writer"),
        ),
        Bench(
            key="fuzzy_dedup",
            seconds=64,
            gib=5.2,
            tags=("curation", "slow"),
            stages=("reader", "minhash", "bands", "join", "writer"),
        ),
        Bench(
            key="alm_windows",
            seconds=33,
            gib=2.2,
            tags=("audio",),
            stages=("manifest", "builder", "overlap"),
            noise=0.03,
        ),
        Bench(key="train_step[model=base]", seconds=0.42, gib=6, tags=("gpu",), gpu=True, noise=0.006),
        Bench(key="train_step[model=large]", seconds=1.61, gib=14, tags=("gpu",), gpu=True, noise=0.006),
    ]


SUBJECTS = (
    *("Tidy the planner", "Speed up row groups", "Document the reader", "Retry a lost worker"),
    *("Bump the linters", "Cache schema lookups", "Fix a race at shutdown", "Name threads after stages"),
)
TOLD = {
    88: "Copy partitions before shuffling",
    104: "Check sort keys for nulls",
    30: "Normalise text before tokens",
    43: "Skip normalised text",
}
SOURCE = """def test_sort(bench, n):
    frame = make_frame(n, seed=7)
    {check}result = bench(frame.sort, "key", rounds=5)
    assert result.is_sorted("key")
"""


def make_repository(path: Path) -> list[str]:
    """A repository with a commit for each night, and a release now and then."""
    path.mkdir(parents=True)
    run = ["git", "-C", str(path), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run([*run, "init", "-q", "-b", "main"], check=True)
    revisions = []
    for night in range(NIGHTS):
        subject = TOLD.get(night, SUBJECTS[night % len(SUBJECTS)])
        when = (FIRST + timedelta(days=night, hours=-9)).isoformat()
        author = f"{('core', 'storage', 'engine', 'docs')[night % 4]} <dev@example.org>"
        names = {**os.environ, "GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
        commit = [*run, "commit", "-q", "--allow-empty", "--no-gpg-sign", "--author", author, "-m", subject]
        subprocess.run(commit, check=True, env=names)
        if night % 24 == 23:
            subprocess.run([*run, "tag", f"v1.{night // 24}"], check=True)
        head = subprocess.run([*run, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
        revisions.append(head.stdout.strip())
    return revisions


def environment(night: int, host: str) -> Mapping[str, Any]:
    newer = night >= 60
    packages = {"numpy": "2.3.1", "polars": "1.31.0" if newer else "1.30.0", "pyarrow": "21.0.0"}
    return {
        "id": f"{host}-{'b' if newer else 'a'}",
        "class_id": host,
        "hostname": host,
        "platform": "Linux-6.8-x86_64",
        "python": {"version": "3.12.4"},
        "cpu": {"model": "EPYC 9354" if host == "bench-01" else "Xeon 6430", "cores": 32},
        "packages": packages,
    }


def factor(steps: tuple[tuple[int, float], ...], night: int) -> float:
    return next((by for since, by in reversed(steps) if night >= since), 1.0)


def status_of(bench: Bench, night: int) -> tuple[Status, str]:
    if bench.key == "fuzzy_dedup" and night >= 116:
        return Status.TIMEOUT, "took longer than 120 s and was ended"
    if bench.key == "train_step[model=large]" and night % 17 == 9:
        return Status.FAILED, "exit code 1: CUDA out of memory while allocating 2.0 GiB"
    if bench.key == "alm_windows" and night == NIGHTS - 1:
        return (
            Status.REQUIREMENT_FAILED,
            "throughput_windows_per_s ≥ 60: got 57.3",
        )
    return Status.PASSED, ""


def metrics_of(bench: Bench, night: int, chance: random.Random, host: str) -> dict[str, Measurement]:
    speed = 1.18 if host == "bench-02" else 1.0
    luck = math.exp(chance.gauss(0, bench.noise))
    if chance.random() < 0.02:
        luck *= 1.12
    seconds = bench.seconds * speed * factor(bench.steps, night) * luck
    samples = tuple(seconds * math.exp(chance.gauss(0, bench.noise / 2)) for _ in range(SAMPLES))
    middle = sorted(samples)[SAMPLES // 2]
    memory = bench.gib * GIB * factor(bench.memory_steps, night) * math.exp(chance.gauss(0, 0.01))

    def one(value: float, unit: str | None, direction: Any) -> Measurement:
        return Measurement(value=value, unit=unit, direction=direction, samples=(value,))

    found = {
        "wall_s": Measurement(value=middle, unit="s", direction="lower", samples=samples),
        "rows_per_s": one(bench.rows / middle, "rows/s", "higher"),
        "exec_time_s": one(sum(samples) + 1.4, "s", "lower"),
        "peak_memory_bytes": one(float(int(memory)), "bytes", "lower"),
        "cpu_user_s": one(middle * 3.1, "s", "lower"),
        "load_before": one(abs(chance.gauss(0.15, 0.08)) + (0.9 if night % 31 == 30 else 0), None, None),
        "other_cpu_cores": one(abs(chance.gauss(0.05, 0.03)), "cores", None),
        "cpu_pressure_pct": one(abs(chance.gauss(1.2, 0.7)), "%", None),
    }
    for place, stage in enumerate(bench.stages):
        share = (place + 1.5) / (len(bench.stages) * 2)
        found[f"task_{stage}_process_time_sum"] = one(middle * share, "s", "lower")
    if bench.key == "alm_windows":
        found["throughput_windows_per_s"] = one(
            57.3 if night == NIGHTS - 1 else 2000 / middle, "windows/s", "higher"
        )
    return found


def record_of(bench: Bench, night: int, info: SessionInfo, host: str, chance: random.Random) -> Record:
    status, reason = status_of(bench, night)
    metrics = metrics_of(bench, night, chance, host)
    params = dict(part.split("=") for part in bench.key.rpartition("[")[2][:-1].split(",") if "=" in part)
    checks: tuple[Check, ...] = ()
    if bench.key == "alm_windows":
        value = float(metrics["throughput_windows_per_s"].value or 0)
        checks = (
            Check(
                metric="throughput_windows_per_s",
                kind="min_value",
                bound=60,
                actual=value,
                margin=value / 60 - 1,
                ok=value >= 60,
            ),
            Check(metric="is_success", kind="exact_value", bound=True, actual=True, margin=None, ok=True),
        )
    text = SOURCE.format(check="frame.validate()\n    " if night >= 70 else "")
    failed = status in (Status.TIMEOUT, Status.FAILED)
    return Record(
        session=info.name,
        case=Case(name=bench.key, entry=bench.name, key=bench.key, params=params, tags=bench.tags),
        attempt=1,
        status=status,
        reason=reason,
        started_at=info.started_at,
        exec_time_s=120.0 if status is Status.TIMEOUT else float(metrics["exec_time_s"].value or 0),
        timings_s={"cluster_start": 1.1, "run": bench.seconds * 5, "cluster_stop": 0.3},
        returncode=1 if failed else 0,
        command=("python", f"scripts/{bench.name}_benchmark.py", *(f"--{k}={v}" for k, v in params.items())),
        metrics={} if failed else metrics,
        requirements=checks,
        environment=str(environment(night, host)["id"]),
        revision=info.revision,
        warnings=("the machine was busy: load 1.1 before the run",) if night % 31 == 30 else (),
        details={"source": text} if bench.source else {},
    )


def write_files(directory: Path, info: SessionInfo, records: list[Record], chance: random.Random) -> None:
    """The files of a session, as a run leaves them."""
    plan = Plan(session=info.name, directory=directory, cases=tuple(record.case for record in records))
    session = SessionDir.create(plan)
    for record in records:
        entry = session.prepare(record.case)
        (entry / "logs" / "stdouterr.log").write_text(log_of(record, chance))
        seconds = max(record.exec_time_s, 1)
        peak = float(record.metrics["peak_memory_bytes"].value or 0) if record.metrics else 6.5 * GIB
        lines = ["t_s,memory_bytes,cpu_s,processes"]
        for step in range(121):
            share = step / 120
            used = peak * min(1, 0.15 + share * 1.3) * (0.94 + 0.06 * math.sin(step / 4))
            lines.append(f"{share * seconds:.2f},{used:.0f},{share * seconds * 3.1:.2f},4")
        (entry / "resources.csv").write_text("\n".join(lines) + "\n")
        if "gpu" in record.case.tags:
            (entry / "gpustats.csv").write_text(gpu_readings(seconds))
        session.write_record(record)


def gpu_readings(seconds: float) -> str:
    """What two GPUs said while a case ran, in the columns that the collector writes."""
    head = "timestamp_utc,gpu_id,utilization_gpu_pct,memory_used_bytes,memory_total_bytes,temperature_c,power_draw_w"
    lines = [head]
    for step in range(81):
        now = FIRST + timedelta(days=NIGHTS - 1, seconds=seconds * step / 80)
        time = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        for gpu in (0, 1):
            busy = 0 if step in (0, 80) else 88 + 9 * math.sin(step / 3 + gpu)
            used = min(1.0, 0.2 + step / 20) * (14 - 3 * gpu) * GIB
            cells = (
                time,
                gpu,
                f"{busy:.0f}",
                f"{used:.0f}",
                24 * GIB,
                52 + step // 8,
                f"{90 + 2 * busy:.0f}",
            )
            lines.append(",".join(map(str, cells)))
    return "\n".join(lines) + "\n"


def log_of(record: Record, chance: random.Random) -> str:
    lines = [f"{record.case.name}: starting, 5 rounds after 1 warm-up"]
    for number, sample in enumerate(record.metrics["wall_s"].samples if record.metrics else ()):
        lines.append(f"round {number + 1}: {sample:.4f} s, {chance.randrange(1, 9)} spills")
    if record.reason:
        lines += ["WARNING still running after 60 s", f"ERROR {record.reason}"]
    return "\n".join([*lines, "done" if not record.reason else "ended"]) + "\n"


def make_nights(store: Store, directory: Path, revisions: list[str]) -> None:
    chance = random.Random(20261116)  # noqa: S311 - made-up numbers
    for night in range(NIGHTS):
        host = "bench-02" if night % 3 == 0 and night >= 40 else "bench-01"
        start = (FIRST + timedelta(days=night)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        name = f"nightly-{start[:10]}"
        path = directory / "results" / name
        keeps_files = night >= NIGHTS - 3
        info = SessionInfo(
            id=session_id(name, start),
            name=name,
            started_at=start,
            revision=revisions[night],
            branch="main",
            directory=str(path) if keeps_files else "",
        )
        records = [record_of(bench, night, info, host, chance) for bench in benches()]
        store.add(info, environment(night, host), records)
        if keeps_files:
            write_files(path, info, records, chance)


def say_verdicts(store: Store) -> None:
    """What people said about some of the findings."""
    with store.database.reading():
        found = read_findings(store.database)
    for one in found:
        if one.series.case == "sort[n=10000000]" and one.verdict == "worse":
            add_verdict(
                store.database, one.id, "acknowledged", "the null check is worth it; will vectorise", "core"
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    directory = parser.parse_args().directory
    revisions = make_repository(directory / "repo")
    with open_store(directory / "benchmark.db") as store:
        make_nights(store, directory, revisions)
        noon = FIRST + timedelta(days=NIGHTS - 2, hours=11)
        add_evals(store, directory / "results", noon, environment(NIGHTS, "bench-01"))
        store.reset("tpch_q5", "new data set, scale 10", (FIRST + timedelta(days=50)).isoformat())
        detect(store, Repository(directory / "repo"))
        say_verdicts(store)
    print(directory / "benchmark.db")


if __name__ == "__main__":
    main()
