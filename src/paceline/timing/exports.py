"""Results as files: hyperfine's JSON, a table in Markdown, CSV."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from paceline.timing.results import Ratio, Result
from paceline.timing.show import UNITS, unit_of


def as_json(results: Sequence[Result]) -> dict[str, Any]:
    """What `hyperfine --export-json` writes: times in seconds, parameters as text."""
    return {"results": [_json_of(result) for result in results if result.starts]}


def _json_of(result: Result) -> dict[str, Any]:
    target, times = result.target, result.times_s
    found: dict[str, Any] = {
        "command": target.name,
        "mean": result.mean_s,
        "stddev": result.deviation_s,
        "median": result.median_s,
        "user": result.mean_user_s,
        "system": result.mean_system_s,
        "min": min(times),
        "max": max(times),
        "times": times,
    }
    if result.peak_bytes and None not in result.peak_bytes:
        found["memory_usage_byte"] = result.peak_bytes
    if result.exit_codes:
        found["exit_codes"] = result.exit_codes
    if target.params:
        found["parameters"] = dict(target.params)
    return found


def comparisons(ratios: Sequence[Ratio]) -> list[dict[str, Any]]:
    """How the targets compare, for `--json`; hyperfine's form has no place for it."""
    return [
        {
            "reference": ratio.reference.target.name,
            "command": ratio.other.target.name,
            "ratio": ratio.ratio,
            "low": ratio.low,
            "high": ratio.high,
        }
        for ratio in ratios
    ]


def as_markdown(results: Sequence[Result], ratios: Sequence[Ratio], unit: str | None) -> str:
    """The table that hyperfine writes, relative to the fastest or the reference, with our interval."""
    shown = [result for result in results if result.starts]
    if not shown:
        return ""
    chosen = unit_of(min(result.mean_s for result in shown), unit)
    name, factor = UNITS[chosen]
    relative: Mapping[int, str] = {id(ratio.other): _relative(ratio) for ratio in ratios}
    lines = [
        f"| Command | Mean [{name}] | Min [{name}] | Max [{name}] | Relative |",
        "|:---|---:|---:|---:|---:|",
    ]
    for result in shown:
        mean, spread = result.mean_s * factor, result.deviation_s
        around = f" ± {spread * factor:.1f}" if spread is not None else ""
        low, high = min(result.times_s) * factor, max(result.times_s) * factor
        text = result.target.name.replace("|", "\\|").replace("\n", " ")
        cells = (f"`{text}`", f"{mean:.1f}{around}", f"{low:.1f}", f"{high:.1f}")
        lines.append(f"| {' | '.join(cells)} | {relative.get(id(result), '1.00')} |")
    return "\n".join(lines) + "\n"


def _relative(ratio: Ratio) -> str:
    half = (ratio.high - ratio.low) / 2
    return f"{ratio.ratio:.2f} ± {half:.2f}" if half < float("inf") else f"{ratio.ratio:.2f}"


def as_csv(results: Sequence[Result]) -> str:
    """A row for each, as hyperfine writes it, with a column for each parameter."""
    shown = [result for result in results if result.starts]
    params = list(dict.fromkeys(name for result in shown for name in result.target.params))
    columns = ("command", "mean", "stddev", "median", "user", "system", "min", "max")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*columns, *(f"parameter_{name}" for name in params)])
    for result in shown:
        row = _json_of(result)
        writer.writerow(
            [*(row[column] for column in columns), *(result.target.params.get(name, "") for name in params)]
        )
    return text.getvalue()
