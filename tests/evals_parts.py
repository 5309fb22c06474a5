"""An adapter that misbehaves on request and a benchmark with subsets; importable by workers."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import ClassVar

from paceline.evals.adapters.mock import MockAdapter
from paceline.evals.benchmarks.mock import MockBenchmark
from paceline.evals.interfaces import (
    ContextGroup,
    Device,
    GenerationSpec,
    ModelSpec,
    Prediction,
    Sample,
    Scores,
    Source,
    TransientFault,
    sample_seed,
)

CHAOS = "EVALS_TEST_CHAOS"
"""How probable it is that a sample ends its worker; from the environment, so that it is no part of any key."""
HOLD = "EVALS_TEST_HOLD"
"""A file; while it is there, every sample takes a second."""


class TornAdapter(MockAdapter):
    """A reader whose process dies, hangs or runs out of memory, by chance or by the name of its model.

    `model_kwargs`: `script` is a directory; a file in it named after a fault is removed by the sample that then has
    that fault, so that each happens once.
    """

    def __init__(self, model: ModelSpec, device: Device) -> None:
        super().__init__(ModelSpec(name=model.name), device)
        self._script = Path(str(model.model_kwargs.get("script", "/nonexistent")))
        self._pause_s = float(str(model.model_kwargs.get("pause_s", 0)))
        self._random = Random(os.urandom(8))
        self._chaos = float(os.environ.get(CHAOS, "0"))

    @classmethod
    def check(cls, model: ModelSpec, generation: GenerationSpec) -> None:
        """Whatever is given is taken."""

    def load(self) -> None:
        loads = self._script / "loads"
        if loads.is_dir():
            (loads / f"{os.getpid()}-{time.monotonic_ns()}").touch()
        self._strike("load")

    def generate(self, groups: Sequence[ContextGroup], generation: GenerationSpec) -> Iterator[Prediction]:
        for prediction in super().generate(groups, generation):
            time.sleep(self._pause_s)
            hold()
            self._strike("generate")
            if self._random.random() < self._chaos:
                perform(self._random.choice(["kill", "kill", "stop", "oom", "abort"]))
            yield replace(prediction, extra={"cuda": os.environ.get("CUDA_VISIBLE_DEVICES")})

    def _strike(self, phase: str) -> None:
        if not self._script.is_dir():
            return
        for path in sorted(self._script.glob(f"{phase}-*")):
            try:
                path.unlink()
            except FileNotFoundError:
                continue
            fault = path.name.removeprefix(f"{phase}-").rstrip("0123456789")
            if fault == "orphan" and (self._script / "loads").is_dir():
                left = subprocess.Popen(
                    [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
                )
                (self._script / "loads" / f"orphan-{left.pid}").touch()
            perform(fault)


def hold() -> None:
    until = time.monotonic() + 1
    while HOLD in os.environ and Path(os.environ[HOLD]).exists() and time.monotonic() < until:
        time.sleep(0.02)


class OutOfMemoryError(RuntimeError):
    """Named as the one of torch, which is no MemoryError either."""


def perform(fault: str) -> None:
    print(f"about to have the fault {fault}", flush=True)
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif fault == "abort":
        os.abort()
    elif fault == "exit":
        os._exit(7)
    elif fault == "orphan":
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "oom":
        raise OutOfMemoryError("CUDA out of memory (as it were)")
    elif fault == "network":
        raise TransientFault("the server is busy")
    elif fault == "blab":
        raise PermissionError(f"no entry with {os.environ['HUB_TOKEN']}")
    elif fault == "flood":
        print("x" * 1_000_000, flush=True)
    else:
        raise ValueError("wrong argument")


class Tasks(MockBenchmark):
    """The mock benchmark under many subsets; `samples` of each."""

    name: ClassVar[str] = "tasks"

    def __init__(self, subsets: int = 3, samples: int = 5) -> None:
        super().__init__(repeat=-(-samples // 5))
        self._names = tuple(f"task{number}" for number in range(subsets))
        self._samples = samples

    def subsets(self) -> tuple[str, ...]:
        return self._names

    def source(self, data_dir: Path | None, revision: str | None) -> Source:
        return "real"

    def load(self, subset: str | None, *, data_dir: Path | None, revision: str | None) -> Sequence[Sample]:
        return super().load(None, data_dir=data_dir, revision=revision)[: self._samples]


class Many(MockBenchmark):
    """So many documents with a question each, or with several."""

    name: ClassVar[str] = "many"

    def __init__(self, documents: int = 200, questions: int = 1) -> None:
        super().__init__()
        self._documents, self._questions = documents, questions

    def source(self, data_dir: Path | None, revision: str | None) -> Source:
        return "real"

    def load(self, subset: str | None, *, data_dir: Path | None, revision: str | None) -> Sequence[Sample]:
        return [
            Sample(
                id=f"d{number}-q{turn}",
                context=f"Document {number}.",
                question=f"{turn}?",
                references=("yes",),
            )
            for number in range(self._documents)
            for turn in range(self._questions)
        ]


class CoinAdapter(MockAdapter):
    """Is right by chance: with `chance`, less `loss` under a sparse attention, by the seed of the sample alone."""

    def __init__(self, model: ModelSpec, device: Device) -> None:
        super().__init__(ModelSpec(name=model.name), device)
        self._chance = float(str(model.model_kwargs.get("chance", 0.5)))
        self._loss = float(str(model.model_kwargs.get("loss", 0.0)))

    @classmethod
    def check(cls, model: ModelSpec, generation: GenerationSpec) -> None:
        """Whatever is given is taken."""

    def generate(self, groups: Sequence[ContextGroup], generation: GenerationSpec) -> Iterator[Prediction]:
        chance = self._chance - (self._loss if self._attention is not None else 0.0)
        for sample in (sample for group in groups for sample in group.samples):
            hold()
            salt = f"{sample_seed(generation.seed, sample.id)} {self._attention is None}"
            said = "yes" if Random(salt).random() < chance else "no"
            yield Prediction(sample_id=sample.id, text=said, density=1.0, seconds=0.001)


class DenseFails(CoinAdapter):
    """Cannot answer without a sparse attention."""

    def generate(self, groups: Sequence[ContextGroup], generation: GenerationSpec) -> Iterator[Prediction]:
        if self._attention is None:
            raise ValueError("not dense")
        yield from super().generate(groups, generation)


class BadScorer(Tasks):
    """Cannot score while the file named by `EVALS_TEST_BAD_SCORER` is there."""

    def score(self, samples: Sequence[Sample], predictions: Mapping[str, Prediction]) -> Scores:
        if Path(os.environ["EVALS_TEST_BAD_SCORER"]).exists():
            raise KeyError("no such reference")
        return super().score(samples, predictions)


class NeedsGpu(MockAdapter):
    """Says that it computes on a GPU."""

    uses_gpu: ClassVar[bool] = True


_SCORE_WITHOUT_TORCH = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers", "pynvml"):
            raise ImportError(f"{name} is not here")
sys.meta_path.insert(0, Refuse())
sys.argv = ["paceline", "evals", "score", *sys.argv[1:]]
from paceline.cli import main
sys.exit(main())
"""


def run_python(code: str, *words: str | Path) -> str:
    """What a Python of its own prints, which finds this module too."""
    paths = filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=170,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def score_without_torch(*stubs: Path) -> list[str]:
    """`paceline evals score` where torch cannot be imported: the lines that it prints."""
    return run_python(_SCORE_WITHOUT_TORCH, *stubs).splitlines()
