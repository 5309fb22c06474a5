"""The figures of Paceline's own benchmarks: a table for people and, under `paceline run`, metrics for its history.

A figure beside its bound decides the exit code of a script that is run by hand. Under `paceline run` it does not: there
a figure is held against the nights before it, and a busy machine fails nothing.
"""

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline import emit


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table: a figure, its bound, and what it was measured against; `metric` is its name in records."""

    what: str
    metric: str
    figure: float
    bound: float
    unit: str
    detail: str

    @property
    def met(self) -> bool:
        return self.figure <= self.bound


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser that knows how `paceline run` calls a script."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--benchmark-results-path", type=Path, help="where a run under `paceline run` writes its results"
    )
    return parser


def is_recorded(args: argparse.Namespace) -> bool:
    """Whether somebody asked for result files."""
    return bool(args.benchmark_results_path or os.environ.get("PACELINE_RESULTS_PATH"))


def publish(args: argparse.Namespace, figures: Mapping[str, tuple[float, str]], **work: float) -> None:
    """Write figures with their units, and counts of the work done, where result files are wanted."""
    if not is_recorded(args):
        return
    for name, (value, unit) in figures.items():
        emit.metric(name, value, unit or None)
    emit.metrics({"is_success": True, "num_figures": len(figures), **work})


def show(rows: Sequence[Row]) -> None:
    print(f"{'what':<42} {'figure':>12} {'bound':>12}  {'':<4} measured as")
    for row in rows:
        mark = "ok" if row.met else "OVER"
        figure, bound = f"{row.figure:.2f} {row.unit}", f"{row.bound:g} {row.unit}"
        print(f"{row.what:<42} {figure:>12} {bound:>12}  {mark:<4} {row.detail}")


def finish(args: argparse.Namespace, rows: Sequence[Row], **work: float) -> int:
    """Show and publish the rows; what the script exits with."""
    show(rows)
    publish(args, {row.metric: (row.figure, row.unit) for row in rows}, **work)
    return 0 if is_recorded(args) or all(row.met for row in rows) else 1
