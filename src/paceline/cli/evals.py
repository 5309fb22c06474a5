"""`paceline evals`: models × attentions × benchmarks on a pool of GPUs."""

from importlib import import_module

import click

# Name → module with a function of that name, one line of help. Listing them imports none.
COMMANDS = {
    "run": ("evals_run", "Run the evals of a suite; what was done before is not done again."),
    "plan": ("evals_run", "Show the stubs of a suite, and which of them are done."),
    "show": ("evals_show", "Show the results of an execution."),
    "compare": ("evals_show", "Hold every attention against a baseline, on the same samples."),
    "score": ("evals_show", "Score stored predictions once more; needs no GPU."),
    "slots": ("evals_slots", "Show what the devices of a running execution do; add and remove some."),
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


class LazyEvals(click.Group):
    """Knows its commands by name and line of help, and imports the one that is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"paceline.cli.{COMMANDS[cmd_name][0]}")
        found = getattr(module, f"{cmd_name}_command")
        return found if isinstance(found, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group("evals", cls=LazyEvals, epilog=EPILOG)
def command() -> None:
    """Evaluate models under several attentions on many benchmarks, on a pool of GPUs."""
