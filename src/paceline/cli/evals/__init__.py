"""`paceline evals`: models × attentions × benchmarks on a pool of GPUs."""

import click

from paceline.cli import LazyGroup

# Name → its module here, and one line of help.
COMMANDS = {
    "run": ("run", "Run the evals of a suite; what was done before is not done again."),
    "plan": ("run", "Show the stubs of a suite, and which of them are done."),
    "show": ("show", "Show the results of an execution."),
    "compare": ("show", "Hold every attention against a baseline, on the same samples."),
    "export": ("export", "Write results as a table: CSV, Parquet, Markdown or LaTeX."),
    "plot": ("export", "Draw quality against density or latency, with intervals and the front."),
    "score": ("show", "Score stored predictions once more; needs no GPU."),
    "slots": ("show", "Show what the devices of a running execution do; add and remove some."),
}

EPILOG = """\b
Examples:
  paceline evals plan suite.yaml                which stubs there are, and which are done
  paceline evals run suite.yaml                 run the others
  paceline evals run suite.yaml --gpu 0 --gpu 1 --max-concurrent-runs 4
  paceline evals show benchmark_results         the newest execution's results
  paceline evals compare benchmark_results --baseline dense
  paceline evals export --format latex          the same as a table for a paper
  paceline evals plot --output quality.png      quality against density, with intervals
  paceline evals slots benchmark_results --add 2 --remove 0

\b
An execution is a session in its results directory: 'paceline show', 'paceline history import'
and the rest take it like any other. See docs/evals.md.
"""


@click.group(
    "evals",
    cls=LazyGroup,
    listing={name: (f"evals.{module}.{name}_command", line) for name, (module, line) in COMMANDS.items()},
    epilog=EPILOG,
)
def command() -> None:
    """Evaluate models under several attentions on many benchmarks, on a pool of GPUs."""
