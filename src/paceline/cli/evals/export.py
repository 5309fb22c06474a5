"""`paceline evals export` and `paceline evals plot`: results for papers, spreadsheets and pictures."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paceline.cli.output import write, write_lines
from paceline.errors import PacelineError
from paceline.numbers import digits, duration
from paceline.record.files import write_atomic
from paceline.report.format import aligned, visible

if TYPE_CHECKING:
    from paceline.evals.plot import Against
    from paceline.evals.quality import ParetoPoint

EXPORT_EPILOG = """\b
Examples:
  paceline evals export --format md              the newest execution in ./benchmark_results, as Markdown
  paceline evals export --format latex --output table.tex
  paceline evals export my_results --format parquet --output all.parquet

\b
A row for each stub: model, attention with its parameters, benchmark and subset, score with its interval
(95 %, samples drawn anew), samples, density, times of generating, tokens and memory. Stubs that failed are
rows too. 'md' and 'latex' have the columns that people read, 'csv' and 'parquet' all of them.
"""

PLOT_EPILOG = """\b
Examples:
  paceline evals plot --output quality.svg
  paceline evals plot --against latency --output latency.png

\b
Quality is the mean over subsets of where the score lies in its range, 1 being best. Its interval (95 %) comes
from drawing samples anew within each subset. Points that no other of their model beats are filled and joined.
A model with rows of several kinds (toy, generated, real) has no mean, and is not drawn.
"""

_place = click.argument("place", default="benchmark_results", type=click.Path(path_type=Path))


@click.command("export", epilog=EXPORT_EPILOG)
@_place
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "parquet", "md", "latex"]),
    default="csv",
    show_default=True,
    help="How it is written.",
)
@click.option(
    "--output", metavar="FILE", type=click.Path(path_type=Path), help="Where to; else it is printed."
)
def export_command(place: Path, form: str, output: Path | None) -> int:
    """Write the results of an execution as a table, a row for each stub."""
    from paceline.evals.stored import toy_note
    from paceline.evals.table import export, read_rows

    if form == "parquet" and output is None:
        raise PacelineError("a Parquet file cannot be printed: give --output FILE")
    rows = read_rows(place)
    data = export(rows, form)
    if note := toy_note(rows):
        click.echo(f"note: {note}", err=True)
    if output is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    else:
        write_atomic(output, data, durable=False)
        write(f"{len(rows)} stubs in {output}\n")
    return 0


@click.command("plot", epilog=PLOT_EPILOG)
@_place
@click.option(
    "--against",
    type=click.Choice(["density", "latency"]),
    default="density",
    show_default=True,
    help="The cost: the share of keys looked at, or the time of generating.",
)
@click.option(
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path),
    default="quality.svg",
    show_default=True,
    help="A file that ends in .svg or .png.",
)
def plot_command(place: Path, against: "Against", output: Path) -> int:
    """Draw quality against density or latency, with intervals and the Pareto front of each model."""
    from paceline.evals.plot import draw
    from paceline.evals.quality import quality
    from paceline.evals.stored import find_execution, read_results

    form = output.suffix.removeprefix(".").lower()
    if form not in ("svg", "png"):
        raise PacelineError(f"{output}: a plot is a file that ends in .svg or .png")
    points, refused = quality(read_results(find_execution(place)))
    for text in refused:
        click.echo(text, err=True)
    write_atomic(output, draw(points, against, form), durable=False)
    write_lines([*aligned(point_rows(points)), str(output)])
    return 0


def point_rows(points: Sequence["ParetoPoint"]) -> list[tuple[str, ...]]:
    """Quality and cost of each attention, the cheapest of a model first; `*` marks the front."""
    rows: list[tuple[str, ...]] = [("", "model", "attention", "quality", "(95 %)", "density", "a sample")]
    for point in sorted(points, key=lambda point: (point.model, point.density or 0.0)):
        is_known = point.low is not None and point.high is not None
        interval = f"{digits(point.low or 0.0)} to {digits(point.high or 0.0)}" if is_known else ""
        density = "" if point.density is None else digits(point.density)
        spent = "" if point.seconds is None else duration(point.seconds)
        names = ("*" if point.on_front else "", visible(point.model), visible(point.attention))
        rows.append((*names, digits(point.quality), interval, density, spent))
    return rows
