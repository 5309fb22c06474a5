"""lm-eval 0.4.13 wrote the stored file, with its dummy model and two small tasks."""

from pathlib import Path

import pytest

from history.importers.golden import FILES, load_json, read_all, read_one, write_json
from paceline.history.importers import recognise

RESULTS = "lm-eval/results.json"
CAPITALS, SUMS = (f"{task}[limit=4,model=dummy,num_fewshot=0]" for task in ("toy_capitals", "toy_sums"))


def test_an_evaluation() -> None:
    assert recognise(FILES / RESULTS) == "lm-eval"
    batch, records = read_one(FILES / RESULTS)
    assert batch.session.started_at == "2026-11-16T05:42:44.851Z"
    assert batch.session.meta["version"] == "0.4.13"
    assert batch.session.meta["model"] == "dummy"
    assert sorted(records) == [CAPITALS, SUMS]
    assert records[CAPITALS].case.version == "2"


def test_scores_and_their_errors() -> None:
    _, records = read_one(FILES / RESULTS)
    metrics = records[CAPITALS].metrics
    assert {name: (metric.value, metric.direction) for name, metric in metrics.items()} == {
        "acc": (0.5, "higher"),
        "acc_stderr": (0.28867513459481287, None),
        "acc_norm": (0.5, "higher"),
        "acc_norm_stderr": (0.28867513459481287, None),
    }
    assert records[CAPITALS].details["num_samples"] == 4
    assert records[CAPITALS].params["torch_seed"] == 1234


def test_filters_keep_scores_apart() -> None:
    _, records = read_one(FILES / RESULTS)
    assert list(records[SUMS].metrics) == [
        *("strict-match.exact_match", "strict-match.exact_match_stderr"),
        *("flexible-extract.exact_match", "flexible-extract.exact_match_stderr"),
    ]


def test_the_machine() -> None:
    batch, _ = read_one(FILES / RESULTS)
    assert batch.environment["comparable"] == {
        "cpu": "Example CPU @ 2.50GHz",
        "cpus": 2,
        "python": "3.11",
        "machine": "x86_64",
        "os": "Debian GNU/Linux 12 (bookworm) (x86_64)",
    }
    assert batch.environment["packages"]["torch"] == "2.13.0+cpu"


def test_gpus_make_a_class(tmp_path: Path) -> None:
    data = load_json(RESULTS)
    data["pretty_env_info"] += "\nGPU models and configuration: GPU 0: NVIDIA A100\nGPU 1: NVIDIA A100"
    batch, _ = read_one(write_json(tmp_path / "gpu.json", data))
    assert batch.environment["comparable"]["gpus"] == ["NVIDIA A100", "NVIDIA A100"]


@pytest.mark.parametrize(
    ("changes", "config", "model"),
    [
        (
            {"model_name": "org/m"},
            {"model": "hf", "model_args": {"pretrained": "org/m", "dtype": "auto"}},
            "org/m",
        ),
        ({"model_name": "org/m"}, {"model": "hf", "model_args": "pretrained=org/m,dtype=auto"}, "org/m"),
        ({"model_name": "x7rk2p9q"}, {"model": "hf", "model_args": "pretrained=org/m"}, "org/m"),
        ({"model_name": None}, {"model": "hf-causal", "model_args": "pretrained=gpt2"}, "gpt2"),
        ({"model_name": "x7rk2p9q"}, {"model": "dummy", "model_args": ""}, "dummy"),
        ({"model_name": None, "model_source": "gguf"}, {}, "gguf"),
    ],
)
def test_names_of_models(
    tmp_path: Path, changes: dict[str, object], config: dict[str, object], model: str
) -> None:
    data = {**load_json(RESULTS), **changes, "config": config}
    _, records = read_one(write_json(tmp_path / "model.json", data))
    assert {record.case.params["model"] for record in records.values()} == {model}


def test_a_metric_that_is_better_low(tmp_path: Path) -> None:
    data = load_json(RESULTS)
    data["results"]["toy_sums"] = {
        "word_perplexity,none": 12.5,
        "f1,none": 0.25,
        "bits,none": "N/A",
        "odd,none": 3,
    }
    data["higher_is_better"]["toy_sums"] = {"word_perplexity": False}
    _, records = read_one(write_json(tmp_path / "low.json", data))
    metrics = records[SUMS].metrics
    assert {name: metric.direction for name, metric in metrics.items()} == {
        "word_perplexity": "lower",
        "f1": "higher",
        "odd": None,
    }


def test_a_file_of_an_early_version(tmp_path: Path) -> None:
    old = {
        "results": {"arc_easy": {"acc": 0.25, "acc_stderr": 0.01}},
        "versions": {"arc_easy": 0},
        "config": {"model": "hf-causal", "model_args": "pretrained=gpt2", "num_fewshot": 0, "limit": None},
    }
    _, records = read_one(write_json(tmp_path / "old.json", old))
    record = records["arc_easy[model=gpt2]"]
    assert record.metrics["acc"].direction == "higher"
    assert record.metrics["acc_stderr"].direction is None


def test_answers_to_single_questions_are_passed_over() -> None:
    assert recognise(FILES / "lm-eval/samples_toy_sums.jsonl") is None
    assert len(read_all(FILES / "lm-eval")) == 1
