"""The two example programs of examples/evals, with models built on the spot, offline and from elsewhere.

The programs are copies that differ in one number: their models read 256 tokens instead of 4096, so that the time is not
spent on the middle of long texts. The adapter cuts the texts, as it does for the larger models.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="models are computed with torch")
pytest.importorskip("transformers", reason="models come from transformers")

EXAMPLES = Path(__file__).parents[2] / "examples" / "evals"
LONG, SHORT = '"max_position_embeddings": 4096', '"max_position_embeddings": 256'
TASKS = {"toy-longbench_narrativeqa", "toy-longbench_qasper", "mock_benchmark"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("examples")
    shutil.copytree(EXAMPLES, directory / "programs")
    models = directory / "programs" / "tiny_models.py"
    text = models.read_text(encoding="utf-8")
    assert text.count(LONG) == 1
    models.write_text(text.replace(LONG, SHORT), encoding="utf-8")
    return directory


def run(place: Path, program: str, *words: str) -> tuple[str, list[str]]:
    """The last line, and the lines of stubs that this very run completed."""
    one_worker = ("--gpu-ids", "cpu", "--max-concurrent-runs", "1")
    done = subprocess.run(
        [sys.executable, place / "programs" / program, *one_worker, *words],
        cwd=place,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    return lines[-1], [line for line in lines if line.startswith("completed ")]


def test_the_basic_example_resumes_and_runs_what_changed(place: Path) -> None:
    last, completed = run(place, "basic.py")
    assert last == "12 stubs: 12 completed, 0 skipped, 0 failed, 0 cancelled" and len(completed) == 12
    stub = place / "my_benchmark_results" / "tiny_models_tiny_llama" / "streaming" / "toy_longbench_qasper"
    assert (stub / "raw_results.csv").is_file() and (stub / "metrics.json").is_file()
    assert run(place, "basic.py") == ("12 stubs: 0 completed, 12 skipped, 0 failed, 0 cancelled", [])
    last, completed = run(place, "basic.py", "--window", "16")
    assert last == "12 stubs: 6 completed, 6 skipped, 0 failed, 0 cancelled"
    models = ("tiny-phi", "tiny-llama")
    assert set(completed) == {f"completed {model} streaming {task}" for model in models for task in TASKS}


def test_the_advanced_example_makes_32_stubs_once(place: Path) -> None:
    last, _ = run(place, "advanced.py")
    assert last == "32 stubs: 32 completed, 0 skipped, 0 failed, 0 cancelled"
    last, _ = run(place, "advanced.py")
    assert re.fullmatch(r"32 stubs: 0 completed, 32 skipped, .*", last)
