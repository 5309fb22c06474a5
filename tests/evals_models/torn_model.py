"""A real model whose worker dies, hangs or runs out of memory, by order or by chance; importable by workers."""

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from paceline.evals.adapters.huggingface import HuggingFaceAdapter
from paceline.evals.interfaces import ContextGroup, GenerationSpec, Prediction

SCRIPT, CHAOS = "EVALS_TEST_TORN_SCRIPT", "EVALS_TEST_TORN_CHAOS"
"""A directory whose files each name a fault to have once, and how probable a fault is after any sample: from the
environment, so that it is no part of any key."""


class TornModel(HuggingFaceAdapter):
    """Answers as its model does, between faults."""

    def generate(self, groups: Sequence[ContextGroup], generation: GenerationSpec) -> Iterator[Prediction]:
        random = Random(os.urandom(8))
        for prediction in super().generate(groups, generation):
            for path in sorted(Path(os.environ[SCRIPT]).iterdir())[:1]:
                path.unlink(missing_ok=True)
                perform(path.name)
            if random.random() < float(os.environ[CHAOS]):
                perform(random.choice(["kill", "stop", "oom"]))
            yield prediction


def perform(fault: str) -> None:
    print(f"about to have the fault {fault}", flush=True)
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    else:
        import torch

        raise torch.OutOfMemoryError("CUDA out of memory (as it were)")
