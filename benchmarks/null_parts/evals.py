"""`paceline evals compare`: two attentions that are the same, with 1 to 50 samples and several kinds of scores."""

import csv
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from null_rates import Row

from null_parts.comparing import command
from paceline.evals import AdapterConfig, BenchmarkConfig, BenchmarkExecutor, StreamingConfig
from paceline.evals.stub_files import DONE, METRICS, RAW, write_marker

SIZES = (1, 2, 5, 10, 50)
MODELS = ("a", "b", "c", "d")
Draw = Callable[[np.random.Generator, int], np.ndarray]
SCORES: dict[str, Draw] = {
    "yes or no": lambda random, count: (random.random(count) < 0.6).astype(float),
    "graded": lambda random, count: random.beta(2, 2, count),
}


def rows(seed: int, count: int) -> Iterator[Row]:
    """One model, a matrix of four, and samples that come in documents of five with a luck of their own."""
    for size in SIZES:
        with tempfile.TemporaryDirectory() as place:
            one = _execution(Path(place, "one"), size, MODELS[:1])
            four = _execution(Path(place, "four"), size, MODELS)
            for kind, draw in SCORES.items():
                random = np.random.default_rng([seed, size])
                for directory, what in ((one, "1 comparison"), (four, "4 comparisons")):
                    hits = sum(_is_called(random, directory, size, draw) for _ in range(count))
                    yield Row("evals compare", f"n={size}, {kind}, {what}: called different", hits, count)
    with tempfile.TemporaryDirectory() as place:
        grouped = _execution(Path(place), 50, MODELS[:1])
        random = np.random.default_rng(seed)
        hits = sum(_is_called(random, grouped, 50, _by_document, group=5) for _ in range(count))
        yield Row("evals compare", "10 documents of 5 samples: called different", hits, count)


def _by_document(random: np.random.Generator, count: int) -> np.ndarray:
    """Scores that a document's samples have in common, nearly."""
    level = np.repeat(random.random(count // 5), 5)
    return (random.random(count) < level).astype(float)


def _execution(place: Path, size: int, models: tuple[str, ...]) -> Path:
    """A real execution of so many questions; its scores are drawn anew for each trial."""
    data = place / "data"
    data.mkdir(parents=True)
    texts = ({"id": f"q{i}", "context": f"Text {i}.", "question": "?", "answer": "x"} for i in range(size))
    (data / "mock_benchmark.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in texts))
    done = BenchmarkExecutor(["cpu"], 1, place / "results").run_benchmark_matrix(
        list(models),
        [("dense", None), ("streaming", StreamingConfig(sink_size=4, window_size=8))],
        [BenchmarkConfig("mock_benchmark", data_dir=str(data))],
        AdapterConfig("mock"),
    )
    return done.directory


def _is_called(random: np.random.Generator, execution: Path, size: int, draw: Draw, group: int = 1) -> bool:
    """Whether the command tells two attentions with scores of one distribution apart."""
    for raw in execution.parent.rglob(RAW):
        with raw.open(newline="") as file:
            table = list(csv.DictReader(file))
        for number, (row, score) in enumerate(zip(table, draw(random, size), strict=True)):
            row["score.accuracy"] = repr(float(score))
            row["group"] = f"document {number // group}"
        with raw.open("w", newline="") as file:
            writer = csv.DictWriter(file, table[0])
            writer.writeheader()
            writer.writerows(table)
        _mark(raw.parent)
    return any(one["verdict"] in ("better", "worse") for one in _compared(execution))


def _mark(directory: Path) -> None:
    """The stub is whole again with its new table."""
    marker = json.loads((directory / DONE).read_text())
    (directory / DONE).unlink()
    write_marker(
        directory,
        marker["key"],
        {**marker["facts"], "metrics": json.loads((directory / METRICS).read_text())},
    )


def _compared(execution: Path) -> list[dict[str, str]]:
    code, out = command("evals", "compare", str(execution), "--json")
    found: list[dict[str, str]] = json.loads(out)["comparisons"]
    assert code == (1 if any(one["verdict"] == "worse" for one in found) else 0)
    return found
