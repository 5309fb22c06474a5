"""`paceline plan`: what a run would do, printed and not done."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from paceline.cli.inputs import SuiteCommand, make_request, masked_errors, suite_inputs
from paceline.cli.listing import plan_lines
from paceline.cli.output import flush, write, write_bytes
from paceline.errors import ConfigError, PacelineError

if TYPE_CHECKING:
    from paceline.model import Plan
    from paceline.session.request import Request

EPILOG = """\b
Examples:
  paceline plan                              what ./paceline.yaml would run
  paceline plan base.yaml laptop.yaml        two files, merged
  paceline plan nightly.yaml --only tag:fast
  paceline plan base.yaml laptop.yaml --explain | grep timeout_s
  paceline plan nightly.yaml --json | python -m json.tool

\b
Nothing is written and no secret is shown. Each mistake is one line on standard error,
'file:line: path: what is wrong'; with any, the exit code is 2.
"""


@click.command("plan", cls=SuiteCommand, epilog=EPILOG)
@suite_inputs
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
@click.option(
    "--explain",
    is_flag=True,
    help="Print every value of the merged configuration with the file and line that set it.",
)
def command(*, as_json: bool, explain: bool, **options: Any) -> int:
    """Resolve CONFIG files as `paceline run` would, and print each case it would run."""
    if as_json:
        return _print_json(options)
    request = make_request(options)
    with masked_errors(request.configs):
        return _print_explained(request) if explain else _print_listing(request)


def _print_listing(request: "Request") -> int:
    from paceline.record.redact import Redactor
    from paceline.session.request import prepare

    plan = prepare(request)
    text = "\n".join(plan_lines(plan)) + "\n"
    write(Redactor(plan.secret_values).text(text))
    return _print_errors(plan)


def _print_explained(request: "Request") -> int:
    from paceline.config.explain import explain
    from paceline.record.redact import Redactor
    from paceline.session.request import load_config, prepare

    loaded = load_config(request)
    plan = prepare(request, loaded)
    mask = Redactor(plan.secret_values).text
    for path, value, where in explain(loaded):
        write(f"{mask(path)} = {mask(value)}  ({where})\n")
    return _print_errors(plan)


def _print_json(options: Mapping[str, Any]) -> int:
    """Errors are part of the JSON, also those that leave no plan."""
    from paceline.plan import plan_json
    from paceline.record.codec import dump
    from paceline.record.redact import Redactor
    from paceline.session.request import prepare

    try:
        request = make_request(options)
        with masked_errors(request.configs):
            plan = prepare(request)
    except PacelineError as error:
        problems = error.problems if isinstance(error, ConfigError) else (error,)
        nothing = {"session": options["session_name"] or "", "cases": [], "errors": [*map(str, problems)]}
        write_bytes(dump(nothing) + b"\n")
        raise
    write_bytes(dump(plan_json(plan, Redactor(plan.secret_values))) + b"\n")
    return _print_errors(plan)


def _print_errors(plan: "Plan") -> int:
    from paceline.plan import plan_errors
    from paceline.record.redact import Redactor

    errors = plan_errors(plan)
    if errors:
        flush()  # first, so that the two streams stand in order where they meet
        mask = Redactor(plan.secret_values).text
        sys.stderr.writelines(f"{mask(error)}\n" for error in errors)
    return 2 if errors else 0
