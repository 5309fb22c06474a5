"""`paceline evals show`, `compare`, `score` and `slots`: executions on disk."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paceline.cli.evals.export import point_rows
from paceline.cli.output import write, write_json, write_lines
from paceline.numbers import digits, percent, signed, size

if TYPE_CHECKING:
    from paceline.evals.comparison import Comparison, PairedEffect

SHOW_EPILOG = """\b
Examples:
  paceline evals show                            the newest execution in ./benchmark_results
  paceline evals show benchmark_results/execution_20250115_143022
  paceline evals show --json
"""

COMPARE_EPILOG = """\b
Examples:
  paceline evals compare                         every attention against dense
  paceline evals compare experiments --baseline streaming
  paceline evals compare --json

\b
The scores of one sample under both attentions are a pair; the interval (95 %) of the mean difference
comes from drawing the pairs anew, the verdict from exchanging them, corrected for all rows. Samples of
one document count as one. An attention is on the front (*) if no other has both a higher quality and a
lower density. Exit code 1 if an attention is worse than the baseline, or has no result where that has
one; 2 if nothing was compared.
"""

SCORE_EPILOG = """\b
Examples:
  paceline evals score benchmark_results/llama_3.1_8B/dense/longbench_qasper
  paceline evals score benchmark_results/*/*/longbench_*
"""

SLOTS_EPILOG = """\b
Examples:
  paceline evals slots                           what the devices of the newest execution do
  paceline evals slots benchmark_results --add 2 --add 3
  paceline evals slots benchmark_results --remove 0
  paceline evals slots --json

\b
A device that is removed finishes the stubs it is at. One that is added brings as many workers as each
device has; 'cpu' is one more of them. What cannot be done is said, with exit code 2. The memory and use of
GPUs over time are in the execution's gpustats.csv.
"""

_place = click.argument("place", default="benchmark_results", type=click.Path(path_type=Path))


@click.command("show", epilog=SHOW_EPILOG)
@_place
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def show_command(place: Path, as_json: bool) -> int:
    """Show the results of an execution: a PLACE is its directory, or a results directory with some."""
    from paceline.evals.stored import entry_task, find_execution, read_summary, toy_note
    from paceline.report.format import aligned

    execution = find_execution(place)
    summary = read_summary(execution)
    if as_json:
        write_json(summary)
        return 0
    is_timed = any(entry.get("generate_s") is not None for entry in summary["results"])
    head = (
        "model",
        "attention",
        "benchmark",
        "metric",
        "score",
        "density",
        "s a sample" if is_timed else "",
        "",
    )
    rows: list[tuple[str, ...]] = [head]
    for entry in (*summary["results"], *summary["failures"]):
        names = (str(entry["model"]), str(entry["attention"]), entry_task(entry))
        if "error_type" in entry:
            rows.append((*names, "", "failed", "", "", f"{entry['error_type']}: {entry['error_message']}"))
        else:
            density = "" if entry["density"] is None else digits(entry["density"])
            before = "" if entry["state"] == "completed" else "before"
            spent, count = entry.get("generate_s"), entry.get("num_samples")
            each = "" if spent is None or not count else digits(spent / count)
            rows.append((*names, str(entry["primary"]), digits(entry["score"]), density, each, before))
    write_lines(aligned(rows))
    if note := toy_note(summary["results"]):
        write(f"{note}\n")
    counts = ", ".join(f"{summary[name]} {name}" for name in ("completed", "skipped", "failed", "cancelled"))
    write(f"{execution.name}: {summary['total']} stubs: {counts}\n")
    return 0


@click.command("compare", epilog=COMPARE_EPILOG)
@_place
@click.option(
    "--baseline", metavar="NAME", default="dense", show_default=True, help="The attention to hold against."
)
@click.option("--allow-missing", is_flag=True, help="Results that only the baseline has do not fail.")
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
def compare_command(place: Path, baseline: str, allow_missing: bool, as_json: bool) -> int:
    """Hold every attention of an execution against a baseline, on the same samples, and show what each costs."""
    from paceline.evals.comparison import compare
    from paceline.evals.stored import failed_stubs, find_execution, read_results

    execution = find_execution(place)
    comparison = compare(read_results(execution), baseline=baseline, failed=failed_stubs(execution, baseline))
    if as_json:
        data = {
            "comparisons": [asdict(effect) for effect in comparison.effects],
            "pareto": [asdict(point) for point in comparison.pareto],
            "refused": comparison.refused,
            "own": [asdict(effect) for effect in comparison.own],
            "missing": comparison.missing,
            "gone": comparison.gone,
        }
        write_json(data)
    else:
        _print(comparison, baseline)
    if comparison.has_worse:
        return 1
    if not comparison.effects:
        others = "has no counterpart under the same conditions" if comparison.missing else "stands alone"
        click.echo(f"nothing was compared: {baseline} {others}; run another attention beside it", err=True)
        return 2
    return 1 if comparison.gone and not allow_missing else 0


def _print(comparison: "Comparison", baseline: str) -> None:
    from paceline.report.format import aligned

    rows = [("verdict", "model", "benchmark", "attention", "score", baseline, "difference (95 %)", "samples")]
    for effect in comparison.effects:
        names = (effect.verdict, effect.model, effect.task, effect.attention)
        change = f"{signed(effect.difference)} ({signed(effect.low)} to {signed(effect.high)})"
        rows.append((*names, digits(effect.score), digits(effect.baseline_score), change, str(effect.n)))
    points = point_rows(comparison.pareto)
    missing = [
        f"not compared: {name} has no counterpart under the same conditions" for name in comparison.missing
    ]
    gone = [f"missing: {name}, which {baseline} has a result of" for name in comparison.gone]
    few = dict.fromkeys(effect.reason for effect in comparison.effects if effect.reason)
    early = [
        f"{effect.model}/{effect.attention}/{effect.task}: "
        f"decided after {effect.stopped_after:,} of {effect.of:,} samples"
        for effect in comparison.effects
        if effect.stopped_after is not None
    ]
    notes = [*early, *_own_lines(comparison.own), *comparison.refused, *missing, *gone, *few]
    write_lines([*aligned(rows), "", *aligned(points), *notes])


def _own_lines(effects: Sequence["PairedEffect"]) -> Iterator[str]:
    """What the baseline differs from itself by, where it was asked several times; one line for all that do not."""
    steady = [effect for effect in effects if not effect.flips]
    if steady:
        yield f"A/A: {steady[0].attention} scored the same each time in {len(steady)} of {len(effects)} tasks"
    for effect in effects:
        if effect.flips:
            change = f"{signed(effect.difference)} ({signed(effect.low)} to {signed(effect.high)})"
            said = (
                "" if effect.verdict == "same" else ": MORE THAN CHANCE, so that other differences may be too"
            )
            flips = f"{percent(effect.flips)} of samples flip"
            name = f"A/A {effect.model} {effect.task}: {effect.attention}"
            yield f"{name} differs from itself by {change}, {flips}{said}"


@click.command("score", epilog=SCORE_EPILOG)
@click.argument("directories", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--data-dir", metavar="DIR", help="Where the benchmark's local data is now, if it was moved.")
def score_command(directories: tuple[Path, ...], data_dir: str | None) -> int:
    """Score the predictions in stub DIRECTORIES once more, with the benchmark's scorer as it is now."""
    from paceline.evals.scoring import score_again

    for directory in directories:
        metrics = score_again(directory, data_dir=data_dir)
        write(f"{directory}: {metrics['primary']} {digits(metrics['overall_score'])}\n")
    return 0


@click.command("slots", epilog=SLOTS_EPILOG)
@_place
@click.option("--add", metavar="ID", multiple=True, help="Use this device from now on; repeatable.")
@click.option("--remove", metavar="ID", multiple=True, help="Give this device no more work; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print the devices as JSON.")
def slots_command(place: Path, add: tuple[str, ...], remove: tuple[str, ...], as_json: bool) -> int:
    """Show what the devices of the running execution at PLACE do; add and remove some."""
    from paceline.evals.devices import ask, read_slots
    from paceline.evals.stored import find_execution
    from paceline.report.format import aligned

    execution = find_execution(place, finished=False)
    if add or remove:
        read_slots(execution)  # raises if nothing runs there
        for do, names in (("add", add), ("remove", remove)):
            for name in names:
                write(f"{ask(execution, do, name)}\n")
        return 0
    devices = read_slots(execution)
    if as_json:
        write_json(devices)
    else:
        write_lines(aligned([("device", "memory given", "workers"), *map(_device_row, devices)]))
    return 0


def _device_row(device: Mapping[str, Any]) -> tuple[str, str, str]:
    total = device["memory_bytes"]
    memory = size(device["memory_given_bytes"]) + (f" of {size(total)}" if total else "")
    busy = [
        f"{worker['stub']} ({worker['known']}/{worker['total']})"
        for worker in device["workers"]
        if worker["stub"]
    ]
    name = f"{device['device']} (leaving)" if device["removing"] else str(device["device"])
    return name, memory, "; ".join(busy) or "idle"
