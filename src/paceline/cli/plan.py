"""`paceline plan`: what a run would do, printed and not done."""

import shlex
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from paceline.cli.inputs import SuiteCommand, make_request, masked_errors, suite_inputs
from paceline.cli.output import flush, write, write_bytes
from paceline.errors import ConfigError, PacelineError
from paceline.model import RUN_DIR, Case, Plan
from paceline.report.format import count, duration, required, size, visible

if TYPE_CHECKING:
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
    text = "\n".join(_plan_lines(plan)) + "\n"
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


def _print_errors(plan: Plan) -> int:
    from paceline.plan import plan_errors
    from paceline.record.redact import Redactor

    errors = plan_errors(plan)
    if errors:
        flush()  # first, so that the two streams stand in order where they meet
        mask = Redactor(plan.secret_values).text
        sys.stderr.writelines(f"{mask(error)}\n" for error in errors)
    return 2 if errors else 0


def _plan_lines(plan: Plan) -> Iterator[str]:
    """The whole plan, still with its secrets: redact the text before it is shown."""
    url = plan.settings.get("results_url")
    place = f"{url}/{plan.session}" if url else str(plan.directory)
    yield f"Session {visible(plan.session)} in {visible(place)}"
    sinks = ", ".join(sink.name for sink in plan.sinks) or "none"
    yield f"{count(len(plan.cases), 'case')}, {count(len(plan.setups), 'data setup')}, sinks: {visible(sinks)}"
    for case in (*plan.setups, *plan.cases):
        yield ""
        yield from _case_lines(case)
    yield from (f"warning: {visible(warning)}" for warning in plan.warnings)


def _case_lines(case: Case) -> Iterator[str]:
    kind = "data setup " if case.kind == "data_setup" else ""
    origin = f"  ({visible(str(case.source))})" if str(case.source) else ""
    yield f"{kind}{visible(case.name)}{origin}"
    if case.blocked:
        yield f"    cannot run: {visible(case.blocked)}"
    for title, text in _facts(case):
        if text:
            yield f"    {title:<13} {visible(text)}"


def _facts(case: Case) -> Iterator[tuple[str, str]]:
    """What decides how the case runs; empty texts are left out."""
    yield "command", shlex.join(case.argv).replace(RUN_DIR, "{session_entry_dir}")
    yield "cwd", (case.cwd or "").replace(RUN_DIR, "{session_entry_dir}")
    yield "env", ", ".join(case.env)
    yield "timeout", duration(case.timeout_s)
    yield "runs", _runs(case)
    yield "resources", _resources(case)
    yield "ray", "a cluster of its own" if case.cluster is not None else ""
    yield "requirements", "; ".join(_requirements(case))
    yield "needs", ", ".join(case.needs)
    yield "tags", ", ".join(case.tags)


def _runs(case: Case) -> str:
    parts = [f"{case.repeat} measured"] if case.repeat > 1 or case.warmup else []
    parts += [count(case.warmup, "warm-up")] if case.warmup else []
    parts += [f"repeated up to {case.retries}× if the infrastructure fails"] if case.retries else []
    return ", ".join(parts)


def _resources(case: Case) -> str:
    wanted = case.resources
    parts = [count(wanted.gpus, "GPU")] if wanted.gpus else []
    parts = [f"{wanted.cpus:g} CPU{'' if wanted.cpus == 1 else 's'}", *parts]
    parts += [size(wanted.memory_bytes)] if wanted.memory_bytes else []
    parts += ["alone on the machine"] if wanted.exclusive else []
    parts += (
        [f"on {', '.join(f'{name}={value}' for name, value in wanted.labels.items())}"]
        if wanted.labels
        else []
    )
    return ", ".join(parts)


def _requirements(case: Case) -> Iterator[str]:
    for requirement in case.requirements:
        warns = " (warns only)" if requirement.severity == "warn" else ""
        yield f"{required(requirement)}{warns}"
