"""`paceline regressions --replay`: how good the detector is, by what people said about its findings."""

import json
from collections.abc import Sequence
from typing import Any

from paceline.cli.history.db import count
from paceline.cli.output import write
from paceline.findings.commits import Repository
from paceline.findings.detection import known_places
from paceline.findings.replay import Alarm, Replay, replay
from paceline.findings.telling import share
from paceline.history import Store
from paceline.report.format import visible


def print_replay(
    store: Store,
    repository: Repository | None,
    cases: Sequence[str],
    metrics: Sequence[str],
    *,
    as_json: bool,
) -> None:
    """Run the detector over the past and print what it would have said."""
    done = replay(store, known_places(store, repository), cases=cases or None, metrics=metrics or None)
    if as_json:
        write(json.dumps(_json(done), indent=2) + "\n")
        return
    for line in _lines(done):
        write(f"{visible(line)}\n")


def _json(done: Replay) -> dict[str, Any]:
    return {
        "precision": done.precision,
        "recall": done.recall,
        "real_found": done.real_found,
        "real_missed": [one.id for one in done.real_missed],
        "false_raised": done.false_raised,
        "false_avoided": done.false_avoided,
        "unlabelled": done.unlabelled,
        "median_delay": done.median_delay,
        "series": done.series,
        "nights": done.nights,
        "alarms": [_alarm_json(alarm) for alarm in done.alarms],
    }


def _alarm_json(alarm: Alarm) -> dict[str, Any]:
    return {
        "case": alarm.series.case,
        "metric": alarm.series.metric,
        "verdict": alarm.verdict,
        "effect": alarm.effect,
        "at": alarm.at_time,
        "raised_at": alarm.raised_at,
        "delay": alarm.delay,
        "finding": alarm.label or None,
    }


def _lines(done: Replay) -> list[str]:
    if not done.series:
        return [
            "nobody has said anything yet that the detector could be held against: see 'paceline verdict'"
        ]
    real, false = done.real_found + len(done.real_missed), done.false_raised + done.false_avoided
    lines = [
        f"replayed {done.series:,} series over {count(done.nights, 'night')}",
        f"precision  {_part(done.precision, done.real_found, done.real_found + done.false_raised)} of its alarms "
        "that somebody judged were real",
        f"recall     {_part(done.recall, done.real_found, real)} of the real changes were found",
        f"false      {done.false_raised:,} of {false:,} changes that somebody called false were raised",
        f"unjudged   {count(done.unlabelled, 'alarm')}",
    ]
    if done.median_delay is not None:
        lines.append(
            f"delay      {done.median_delay:g} results at the median, from the first of the new level"
        )
    lines += [
        f"missed     {one.id} {one.series.case} {one.series.metric} {share(one.effect)}"
        for one in done.real_missed
    ]
    return lines


def _part(value: float | None, some: int, of: int) -> str:
    return "nothing" if value is None else f"{value:.0%} ({some:,} of {of:,})"
