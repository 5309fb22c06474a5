"""Workers with a real model are killed, stopped and run out of memory: the answers are those of a quiet run.

`EVALS_TEST_REAL_STUBS=200` makes it large, with faults by chance as well; three faults happen in any case.
"""

import json
import os
import shutil
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="models are computed with torch")
pytest.importorskip("transformers", reason="models come from transformers")

from evals_models.tiny_model import build  # noqa: E402
from evals_models.torn_model import CHAOS, SCRIPT  # noqa: E402
from evals_parts import Tasks, score_without_torch  # noqa: E402
from paceline.evals import (  # noqa: E402
    AdapterConfig,
    BenchmarkConfig,
    BenchmarkExecutor,
    Clocks,
    ExecutionResults,
    ExecutorOptions,
    RetryPolicy,
    StreamingConfig,
)
from paceline.evals.adapters.huggingface import HuggingFaceAdapter  # noqa: E402
from paceline.evals.attention_config import as_attention  # noqa: E402
from paceline.evals.interfaces import Device, GenerationSpec, ModelSpec, group_by_context  # noqa: E402
from paceline.evals.scoring import score, write_scores  # noqa: E402
from paceline.evals.stub_files import ATTEMPTS, METRICS, RAW  # noqa: E402

STREAMING = StreamingConfig(sink_size=2, window_size=8)
GENERATION = {"max_new_tokens": 2}
SAMPLES = 2


def execute(base: Path, model: Path, subsets: int) -> ExecutionResults:
    clocks = Clocks(startup_timeout_s=300, stall_timeout_s=8, timeout_per_benchmark_s=600)
    patience = RetryPolicy(out_of_memory=50, crash=50, startup=50, stall=50, timeout=50)
    executor = BenchmarkExecutor(
        ["cpu", "cpu"], 2, base, options=ExecutorOptions(clocks=clocks, retry=patience)
    )
    return executor.run_benchmark_matrix(
        [str(model)],
        [("dense", None), ("streaming", STREAMING)],
        [BenchmarkConfig("evals_parts:Tasks", params={"subsets": subsets, "samples": SAMPLES})],
        AdapterConfig("evals_models.torn_model:TornModel"),
        generation_kwargs=GENERATION,
    )


def quiet_results(place: Path, model: Path) -> dict[str, tuple[bytes, bytes]]:
    """What each attention's stubs must hold, computed in this process without any fault."""
    adapter = HuggingFaceAdapter(ModelSpec(name=str(model)), Device(name="cpu", id="cpu:0"))
    adapter.load()
    benchmark = Tasks(subsets=1, samples=SAMPLES)
    found: dict[str, tuple[bytes, bytes]] = {}
    samples = list(benchmark.load("task0", data_dir=None, revision=None))
    for name, attention in (("dense", None), ("streaming", STREAMING)):
        adapter.set_attention(as_attention(attention))
        spec = GenerationSpec(generation_kwargs=GENERATION)
        said = {one.sample_id: one for one in adapter.generate(group_by_context(samples), spec)}
        (place / name).mkdir(parents=True)
        write_scores(place / name, samples, said, score(benchmark, samples, said))
        found[name] = read(place / name)
    adapter.close()
    return found


def read(directory: Path) -> tuple[bytes, bytes]:
    return (directory / RAW).read_bytes(), (directory / METRICS).read_bytes()


def test_results_of_a_real_model_are_the_same_whatever_happens_to_its_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stubs = int(os.environ.get("EVALS_TEST_REAL_STUBS", "12"))
    script = tmp_path / "script"
    script.mkdir()
    for fault in ("kill", "oom", "stop"):
        (script / fault).touch()
    monkeypatch.setenv(SCRIPT, str(script))
    monkeypatch.setenv(CHAOS, "0.02" if stubs >= 100 else "0")
    model = build(tmp_path / "model")
    results = execute(tmp_path / "results", model, stubs // 2)
    summary = results.execution_summary
    assert {name: summary[name] for name in ("total", "completed")} == {"total": stubs, "completed": stubs}
    wanted = quiet_results(tmp_path / "quiet", model)
    directories = {Path(one.result_dir): one.stub.sparse_config_name for one in results.individual_results}
    assert all(read(directory) == wanted[attention] for directory, attention in directories.items())
    shutil.rmtree(model)
    assert len(score_without_torch(*directories)) == stubs
    assert all(read(directory) == wanted[attention] for directory, attention in directories.items())
    lines = [line for path in tmp_path.rglob(ATTEMPTS) for line in path.read_text().splitlines()]
    faults = [json.loads(line)["fault"] for line in lines]
    print(f"{stubs} stubs, faults: { {name: faults.count(name) for name in sorted(set(faults))} }")
    assert {"crash", "stall", "out_of_memory"} <= set(faults)
