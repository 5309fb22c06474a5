"""`paceline evals`: models × attentions × benchmarks on a pool of GPUs."""

import click

from paceline.cli.lazy_group import LazyGroup, apart

# Name → module with a function of that name, one line of help. Listing them imports none.
COMMANDS = {
    "run": ("evals.run", "Run the evals of a suite; what was done before is not done again."),
    "plan": ("evals.run", "Show the stubs of a suite, and which of them are done."),
    "show": ("evals.show", "Show the results of an execution."),
    "compare": ("evals.show", "Hold every attention against a baseline, on the same samples."),
    "score": ("evals.show", "Score stored predictions once more; needs no GPU."),
    "slots": ("evals.slots", "Show what the devices of a running execution do; add and remove some."),
}

EPILOG = """\b
Examples:
  paceline evals plan suite.yaml                which stubs there are, and which are done
  paceline evals run suite.yaml                 run the others
  paceline evals run suite.yaml --gpu 0 --gpu 1 --max-concurrent-runs 4
  paceline evals show benchmark_results         the newest execution's results
  paceline evals compare benchmark_results --baseline dense
  paceline evals slots benchmark_results --add 2 --remove 0

\b
An execution is a session in its results directory: 'paceline show', 'paceline history import'
and the rest take it like any other. See docs/evals.md.
"""


@click.group("evals", cls=LazyGroup, sources=apart(COMMANDS), epilog=EPILOG)
def command() -> None:
    """Evaluate models under several attentions on many benchmarks, on a pool of GPUs."""
