"""In a process of its own: measure, and print what was found as JSON. Standard library only."""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from paceline.timing.functions import Effort, Work, measure
from paceline.timing.work import Statement


def statement(text: str) -> None:
    """Time Python code: the request has its parts, how much to measure, and whether this Python is another's."""
    request = json.loads(text)
    if request["is_foreign"]:
        sys.path.pop()  # Our own packages are not for the code of another environment.
    sys.argv = ["-c"]
    with Answer() as answer:
        code = Statement(**request["parts"])
        answer.give(code, request["effort"])
        code.close()


class Answer:
    """Standard output, kept for the answer alone: what the code prints goes to standard error."""

    def __enter__(self) -> "Answer":
        self._fd = os.dup(1)
        os.dup2(2, 1)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def give(self, work: Work, effort: Mapping[str, Any]) -> None:
        """Measure, and say what came of it."""
        found = json.dumps(asdict(measure(work, Effort(**effort)))).encode()
        while found:
            found = found[os.write(self._fd, found) :]
