"""RULER's two metrics: which references the answer holds, in any case."""

import re
from collections.abc import Sequence

from paceline.evals.scorers import ScoreError

_CONTROL = re.compile(r"[\x00-\x1f]")


def score(task: str, prediction: str, references: Sequence[str]) -> float:
    """Questions about documents need any one reference, all other tasks each of them."""
    if not references:
        raise ScoreError(f"RULER {task}: a sample without answers")
    said = _CONTROL.sub("\n", prediction).strip().lower()
    found = [reference.lower() in said for reference in references]
    return float(any(found)) if task.startswith("qa") else sum(found) / len(found)
