"""The ALM benchmark as a user runs it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paceline.curate import Task
from paceline.curate.alm import ALMDataBuilderStage, ALMDataOverlapStage

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SCRIPT = BENCHMARKS / "scripts" / "alm_pipeline_benchmark.py"


def call(*words: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, words)], capture_output=True, text=True, cwd=cwd, check=False
    )


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("alm") / "manifest.jsonl"
    made = call(BENCHMARKS / "data" / "make_alm_manifest.py", "--output", path, "--entries", 400, "--hard")
    assert made.returncode == 0, made.stderr
    return path


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def test_counts_and_output_are_those_of_the_stages(manifest: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    words = ("--benchmark-results-path", tmp_path / "r", "--input-manifest", manifest, "--executor", "local")
    ran = call(SCRIPT, *words, "--output-manifest", out, "--repeat-factor", 2)
    assert ran.returncode == 0, ran.stderr
    build, overlap = ALMDataBuilderStage(), ALMDataOverlapStage(overlap_percentage=50)
    entries = [json.loads(line) for line in manifest.read_text().splitlines()]
    expected = [overlap.process(build.process(Task(data=entry))).data for entry in entries]
    written = [json.loads(line) for line in out.read_text().splitlines()]
    plain = json.loads(json.dumps(expected))
    by_path = sorted(written, key=lambda entry: entry["audio_filepath"])
    assert by_path == [entry for entry in plain for _ in range(2)]
    metrics = read(tmp_path / "r" / "metrics.json")
    assert metrics["is_success"] is True
    assert (metrics["num_input_entries"], metrics["num_output_entries"]) == (800, 800)
    assert metrics["num_rejected_entries"] == 0
    assert metrics["total_builder_windows"] == 2 * sum(len(entry["windows"]) for entry in expected)
    assert metrics["total_filtered_windows"] == 2 * sum(len(entry["filtered_windows"]) for entry in expected)
    assert metrics["total_filtered_duration_s"] == pytest.approx(2 * sum(e["filtered_dur"] for e in expected))
    params = read(tmp_path / "r" / "params.json")
    assert (params["repeat_factor"], params["executor"]) == (2, "local")
    assert (tmp_path / "r" / "tasks.pkl").exists() and not (tmp_path / "r" / "rejects.jsonl").exists()


def test_bad_lines_go_to_the_rejects_or_end_the_run(manifest: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    good = manifest.read_text().splitlines()[:3]
    bad.write_text("\n".join([good[0], '{"a": NaN}', good[1], '{"audio_filepath": "x"}', good[2]]) + "\n")
    words = (
        SCRIPT,
        "--benchmark-results-path",
        tmp_path / "r",
        "--input-manifest",
        bad,
        "--executor",
        "local",
    )
    ran = call(*words, "--repeat-factor", 3)
    assert ran.returncode == 0, ran.stderr
    rejects = [json.loads(line) for line in (tmp_path / "r" / "rejects.jsonl").read_text().splitlines()]
    assert [(reject["line"], reject["count"]) for reject in rejects] == [(2, 3), (4, 3)]
    metrics = read(tmp_path / "r" / "metrics.json")
    assert (metrics["num_input_entries"], metrics["num_rejected_entries"]) == (15, 6)
    ran = call(*words, "--on-error", "fail")
    assert ran.returncode == 1 and f"{bad}:2: not JSON" in ran.stderr and "Traceback" not in ran.stderr
    assert read(tmp_path / "r" / "metrics.json")["is_success"] is False


def test_arguments_come_from_an_entry_and_the_command_line_wins(manifest: Path, tmp_path: Path) -> None:
    words = ("--config", BENCHMARKS / "curation.yaml", "--entry", "alm_pipeline_local")
    ran = call(SCRIPT, *words, "--input-manifest", manifest, "--repeat-factor", 1, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    params = read(tmp_path / "results" / "alm_pipeline_local" / "params.json")
    assert (params["repeat_factor"], params["overlap_percentage"]) == (1, 50)
    ran = call(SCRIPT, "--config", BENCHMARKS / "curation.yaml", "--entry", "nothing", cwd=tmp_path)
    assert ran.returncode == 2 and "no entry 'nothing'" in ran.stderr


# What takes longer to import than five entries take to process.
HEAVY = ("fsspec", "multiprocessing.pool", "numpy", "pandas", "polars", "pyarrow", "ray", "yaml")


def test_a_small_run_imports_nothing_heavy(manifest: Path, tmp_path: Path) -> None:
    small = tmp_path / "small.jsonl"
    small.write_text("\n".join(manifest.read_text().splitlines()[:5]) + "\n")
    program = (
        "import runpy, sys\n"
        "try:\n    runpy.run_path(sys.argv[0], run_name='__main__')\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
        f"print([name for name in {HEAVY} if name in sys.modules])\n"
    )
    words = ("--benchmark-results-path", tmp_path / "r", "--input-manifest", small, "--executor", "local")
    ran = call("-c", f"import sys; sys.argv[0] = {str(SCRIPT)!r}\n{program}", *words)
    assert (ran.returncode, ran.stdout.strip()) == (0, "[]"), ran.stderr
    assert read(tmp_path / "r" / "metrics.json")["num_output_entries"] == 5


def test_a_missing_manifest_is_named(tmp_path: Path) -> None:
    words = ("--benchmark-results-path", tmp_path, "--input-manifest", "nowhere.jsonl", "--executor", "local")
    ran = call(SCRIPT, *words)
    assert ran.returncode == 1 and "nowhere.jsonl: no such file" in ran.stderr
