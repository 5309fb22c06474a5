"""Python code, timed in several processes: each has its own layout of memory, its own hashes, and so its own luck."""

import os
import random
import shlex
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from paceline.plugins import boot_code, python_command
from paceline.run.collectors import SystemCollector
from paceline.run.local.process import Command, Exit, Warden
from paceline.timing.commands import FIRST_LOOK_S, FOREVER_S, CommandFailed, View
from paceline.timing.functions import Effort, Rounds
from paceline.timing.results import Result
from paceline.timing.targets import KINDS, Target

WORKER = "paceline.timing.worker:statement"
LONGEST_COMPLAINT = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes:
    """In how many processes to measure, and with which Python; `effort` is that of each process."""

    count: int
    effort: Effort
    python: str | None = None


def time_statements(results: Sequence[Result], wanted: Processes, view: View) -> None:
    """Fill the results, process by process, the statements in turns."""
    order = random.Random(len(results))  # noqa: S311 - the same order every time
    with Warden() as warden:
        for turn in range(wanted.count):
            view.doing(f"process {turn + 1} of {wanted.count}")
            for result in order.sample(results, len(results)):
                _measure(warden, result, wanted)
                result.share = (turn + 1) / wanted.count
                view.measured()


def _measure(warden: Warden, result: Result, wanted: Processes) -> None:
    target = result.target
    effort = asdict(wanted.effort)
    if result.starts:  # All processes make rounds of the same length.
        effort |= {"loops": result.loops, "laps": result.laps}
    with SystemCollector() as system:
        rounds, ended = run_worker(
            warden, WORKER, _request(target, effort, wanted), wanted.python, target.name
        )
    result.starts.append([*rounds.samples_s])
    result.conditions.append(system.conditions(ended.usage))
    result.loops, result.laps, result.warmups = rounds.loops, rounds.laps, result.warmups + rounds.warmups
    result.loop_cost_s = min(rounds.loop_cost_s, result.loop_cost_s or rounds.loop_cost_s)
    if rounds.peak_bytes is not None:
        result.peak_bytes.append(rounds.peak_bytes)
    if rounds.is_too_short:
        result.notes.append("a round is so short that reading the clock counts: leave out --loops")
    if not rounds.is_settled:
        result.notes.append("the code still got faster when the time for its warm-up was over")


def _request(target: Target, effort: Mapping[str, Any], wanted: Processes) -> dict[str, Any]:
    parts = {kind: getattr(target, kind) for kind in KINDS}
    is_foreign = wanted.python is not None
    return {"parts": {**parts, "code": target.text}, "effort": effort, "is_foreign": is_foreign}


def run_worker(
    warden: Warden, worker: str, request: Mapping[str, Any], python: str | None, name: str
) -> tuple[Rounds, Exit]:
    """What a function of ours, `module:function`, measures in a process of its own, which gets the request as JSON."""
    import json

    words = python_command(boot_code(worker), json.dumps(request), flags=())
    if python is not None:
        words[0] = python
    answer: list[bytes] = []
    complaints: deque[bytes] = deque(maxlen=64)

    def listen(stream: str, chunk: bytes) -> None:
        (answer if stream == "stdout" else complaints).append(chunk)

    command = Command(
        argv=tuple(words), env=os.environ, cwd=str(Path.cwd()), timeout_s=FOREVER_S, first_look_s=FIRST_LOOK_S
    )
    ended = warden.run(command, listen)
    if ended.returncode != 0:
        text = b"".join(complaints)[-LONGEST_COMPLAINT:].decode("utf-8", "replace").strip()
        why = text.rpartition("\n")[2] or ended.message
        raise CommandFailed(f"{name} failed{f' in {shlex.quote(python)}' if python else ''}: {why}")
    with suppress(ValueError):
        return Rounds(**json.loads(b"".join(answer))), ended
    raise CommandFailed(f"{name}: its process ended without a result")
