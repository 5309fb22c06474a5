"""What works without a model, a GPU or their packages: planning, and scoring again what was answered before."""

import json
import shutil
from pathlib import Path

import pytest

from evals_parts import run_python, score_without_torch
from paceline import plugins
from paceline.errors import PacelineError
from paceline.evals import AdapterConfig, BenchmarkConfig, BenchmarkExecutor
from paceline.evals.scoring import score_again
from paceline.evals.stub_files import DONE, METRICS, RAW

HEAVY = [
    "torch",
    "transformers",
    "tokenizers",
    "datasets",
    "nltk",
    "rouge_score",
    "jieba",
    "lm_eval",
    "bert_score",
    "pandas",
    "numpy",
    "scipy",
    "ray",
    "sqlalchemy",
    "mlflow",
]
# lm-eval's package imports torch by itself.
BENCHMARKS = [name for name in sorted(plugins.names("eval_benchmarks")) if name != "lm_eval"]


@pytest.mark.parametrize(
    "code",
    [
        "from paceline.evals import BenchmarkExecutor",
        "from paceline.evals import *\nimport paceline.evals.worker, paceline.evals.stored",
        "from paceline import plugins\n"
        "for group in ('eval_adapters', 'eval_benchmarks', 'eval_schedulers', 'eval_exporters'):\n"
        "    for name in plugins.names(group): plugins.find(group, name)",
        "from paceline.evals import *\n"
        "names = ['longbench', 'zero_scrolls', 'loogle', 'infinite_bench', 'ruler', 'aime2024']\n"
        "matrix = Matrix(models=['m'], attentions=[('hash', HashAttentionConfig())],\n"
        "                benchmarks=[BenchmarkConfig(name) for name in names])\n"
        "assert len(BenchmarkExecutor(['cpu'], 1, 'nowhere').plan(matrix)) > 60",
    ],
    ids=["executor", "all names", "plug-ins", "plan"],
)
def test_nothing_heavy_is_imported_before_it_is_used(code: str) -> None:
    found = run_python(f"{code}\nimport sys\nprint(*sorted(set({HEAVY!r}) & set(sys.modules)))")
    assert found.split() == []


def test_scoring_needs_neither_the_model_nor_torch(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "model.safetensors").write_bytes(b"1234")
    parts = {name: plugins.find("eval_benchmarks", name)().subsets()[:1] for name in BENCHMARKS}
    results = BenchmarkExecutor(["cpu"], 1, tmp_path / "results").run_benchmark_matrix(
        [str(model)],
        [("dense", None)],
        [BenchmarkConfig(name, part or None) for name, part in parts.items()],
        AdapterConfig("mock"),
    )
    assert [failure.error_message for failure in results.failed_executions] == []
    shutil.rmtree(model)
    stubs = [Path(result.result_dir) for result in results.individual_results]
    assert len(stubs) == len(BENCHMARKS)
    before = {stub / name: (stub / name).read_bytes() for stub in stubs for name in (METRICS, RAW)}
    facts = [json.loads((stub / DONE).read_bytes())["facts"] for stub in stubs]
    for path in before:
        path.unlink()
    # Twice each, since it can be repeated.
    assert len(score_without_torch(*stubs, *stubs)) == 2 * len(stubs)
    assert {path: path.read_bytes() for path in before} == before
    assert [json.loads((stub / DONE).read_bytes())["facts"] for stub in stubs] == facts


def test_scoring_again_wants_the_data_that_was_asked(tmp_path: Path) -> None:
    rows = [{"context": "A mill.", "question": "What?", "answers": ["mill"], "answer_prefix": ""}]
    data = tmp_path / "data"
    data.mkdir()
    (data / "qasper.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (result,) = (
        BenchmarkExecutor(["cpu"], 1, tmp_path / "results")
        .run_benchmark_matrix(
            ["m"],
            [("dense", None)],
            [BenchmarkConfig("longbench", ["qasper"], data_dir=str(data))],
            AdapterConfig("mock"),
        )
        .individual_results
    )
    stub = Path(result.result_dir)
    assert score_again(stub) == score_again(stub, data_dir=str(data)) == result.metrics
    moved = data.rename(tmp_path / "moved")
    with pytest.raises(PacelineError, match="--data-dir"):
        score_again(stub)
    assert score_again(stub, data_dir=str(moved)) == result.metrics
    rows[0]["answers"] = ["river"]
    (moved / "qasper.jsonl").write_text(f"{json.dumps(rows[0])}\n")
    with pytest.raises(PacelineError, match="is not the data that"):
        score_again(stub, data_dir=str(moved))
