"""What was timed, as cases and records in the same history as everything else."""

import os
import shlex
import statistics
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from paceline.metrics import describe
from paceline.model import Case, Measurement, Record, Scalar, Status, name_case
from paceline.record.environment import capture
from paceline.record.events import utc_now
from paceline.record.masking import mask_record
from paceline.record.redact import Redactor, secret_values
from paceline.timing.results import Result

KIND = "time"


class Keeper:
    """A session of the history that records are added to as they are made; it begins now."""

    def __init__(self, url: str, prefix: str) -> None:
        from paceline.history.session_files import session_here

        self._url = url
        self._redactor = Redactor(secret_values(os.environ))
        self._environment = capture(redactor=self._redactor, command_line=sys.argv)
        self.session = session_here(self._environment, prefix=prefix, kind=KIND, directory=Path.cwd())
        self._attempts: Counter[str] = Counter()

    def add(self, records: Sequence[Record]) -> None:
        """Add records; a case that is there already gets its next attempt."""
        from paceline.history import open_store

        environment = {**self._environment.data, "packages": list(self._environment.packages)}
        with open_store(self._url) as store:
            store.add(self.session, environment, [self._placed(record) for record in records])

    def _placed(self, record: Record) -> Record:
        self._attempts[record.case.key] += 1
        placed = replace(
            record,
            session=self.session.name,
            attempt=self._attempts[record.case.key],
            environment=self._environment.id,
            revision=self.session.revision,
        )
        return mask_record(placed, self._redactor)


def records_of(results: Sequence[Result], name: str) -> list[Record]:
    """A record for each target that was measured; several commands are told apart by a parameter `command`."""
    has_many = len({result.target.place for result in results}) > 1
    return [_record(result, name, has_many=has_many) for result in results if result.starts]


def _record(result: Result, name: str, *, has_many: bool) -> Record:
    target = result.target
    params: dict[str, Scalar] = {"command": target.name} if has_many else {}
    params |= target.values
    samples: dict[str, Sequence[Scalar]] = {"exec_time_s": result.times_s}
    samples |= {"cpu_user_s": result.user_s, "cpu_system_s": result.system_s}
    peaks = result.peak_bytes
    if peaks and None not in peaks:
        samples["peak_memory_bytes"] = peaks
    failed = [code for code in result.exit_codes if code]
    about = {
        "shell_s": result.shell_s,
        "loops": result.loops if result.loops > 1 else None,
        "loop_cost_s": result.loop_cost_s,
        "samples_of_starts": [len(one) for one in result.starts] if result.loops > 1 else None,
        "exit_codes": result.exit_codes if failed else None,
    }
    key = name_case(name, params)
    return Record(
        session="",
        case=Case(name=key, entry=name, key=key, params=params),
        attempt=1,
        status=Status.FAILED if failed else Status.PASSED,
        reason=f"{len(failed)} of {len(result.exit_codes)} runs ended with another code than 0"
        if failed
        else "",
        started_at=utc_now(),
        exec_time_s=result.median_s,
        returncode=next(iter(failed), 0) if result.exit_codes else None,
        command=_words(target.text),
        metrics={metric: measurement(metric, values) for metric, values in samples.items() if values},
        warnings=tuple(result.warnings()),
        disturbed=result.disturbed,
        details={"kind": KIND, "text": target.text, **{name: told for name, told in about.items() if told}},
    )


def measurement(name: str, samples: Sequence[Any], known_as: str = "") -> Measurement:
    """The samples of a metric as a record has them; `known_as` is the name that says what they are."""
    known = describe(known_as or name)
    return Measurement(
        value=statistics.median(samples), unit=known.unit, direction=known.direction, samples=tuple(samples)
    )


def _words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError:
        return (text,)


def params_of(given: Mapping[str, Any]) -> dict[str, Scalar]:
    """Parameters as a record holds them: what is neither a number, a flag nor a text is its text."""
    plain = (str, int, float, bool, type(None))
    return {name: value if isinstance(value, plain) else str(value) for name, value in given.items()}
