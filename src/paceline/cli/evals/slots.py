"""`paceline evals slots`: the devices of a running execution."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from paceline.cli.evals.show import DEFAULT_RESULTS
from paceline.cli.output import write

EPILOG = """\b
Examples:
  paceline evals slots                           what the devices of the newest execution do
  paceline evals slots benchmark_results --add 2 --add 3
  paceline evals slots benchmark_results --remove 0
  paceline evals slots --json

\b
A device that is removed finishes the stubs it is at. Devices that are added count against the same
--max-concurrent-runs. The memory and use of GPUs over time are in the execution's gpustats.csv.
"""


@click.command("slots", epilog=EPILOG)
@click.argument("place", default=DEFAULT_RESULTS, type=click.Path(path_type=Path))
@click.option("--add", metavar="ID", multiple=True, help="Use this device from now on; repeatable.")
@click.option("--remove", metavar="ID", multiple=True, help="Give this device no more work; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print the devices as JSON.")
def slots_command(place: Path, add: tuple[str, ...], remove: tuple[str, ...], as_json: bool) -> int:
    """Show what the devices of the running execution at PLACE do; add and remove some."""
    from paceline.evals.slots import ask, read_slots
    from paceline.evals.stored import find_execution
    from paceline.record.codec import dump
    from paceline.report.format import aligned

    execution = find_execution(place, finished=False)
    if add or remove:
        ask(execution, "add", add)
        ask(execution, "remove", remove)
        write(f"asked {execution.name} for it\n")
        return 0
    devices = read_slots(execution)
    if as_json:
        write(dump(devices, pretty=True).decode() + "\n")
        return 0
    for line in aligned([("device", "memory given", "workers"), *map(_row, devices)]):
        write(f"{line}\n")
    return 0


def _row(device: Mapping[str, Any]) -> tuple[str, str, str]:
    gib = 1 << 30
    total = device["memory_bytes"]
    memory = f"{device['memory_given_bytes'] / gib:.1f}" + (f" of {total / gib:.1f} GiB" if total else " GiB")
    busy = [
        f"{worker['stub']} ({worker['known']}/{worker['total']})"
        for worker in device["workers"]
        if worker["stub"]
    ]
    name = f"{device['device']} (leaving)" if device["removing"] else str(device["device"])
    return name, memory, "; ".join(busy) or "idle"
