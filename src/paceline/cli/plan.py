"""`paceline plan`: what a run would do, printed and not done."""

import atexit
import gc
import shlex
import sys
from collections.abc import Iterator
from typing import Any

import click

from paceline.cli.inputs import SuiteCommand, make_request, masked_errors, suite_inputs
from paceline.cli.output import error_text, flush, write, write_encoded
from paceline.errors import ConfigError, PacelineError
from paceline.model import RUN_DIR, Case, Plan
from paceline.numbers import count, duration, number, size
from paceline.report.format import required, visible

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
    from paceline.plan import plan_errors, plan_json
    from paceline.record.codec import dump
    from paceline.record.masking import mask_plan
    from paceline.record.redact import Redactor, mask_urls
    from paceline.session.request import load_config, prepare

    atexit.register(gc.freeze)  # or the interpreter looks through the whole plan for garbage before it ends
    try:
        request = make_request(options)
        with masked_errors(request.configs):
            loaded = load_config(request)
            plan = prepare(request, loaded)
    except PacelineError as error:
        if as_json:  # errors are part of the JSON, also those that leave no plan
            problems = error.problems if isinstance(error, ConfigError) else (error,)
            shown = [error_text(error, str(problem)) for problem in problems]
            nothing = {"session": options["session_name"] or "", "cases": [], "errors": shown}
            write_encoded(dump(nothing) + b"\n")
        raise
    redactor = Redactor(plan.secret_values)
    if as_json:
        write_encoded(dump(plan_json(mask_plan(plan, redactor))) + b"\n")
    elif explain:
        from paceline.config.explain import explain as explained

        for path, value, where in explained(loaded):
            write(f"{redactor.text(path)} = {redactor.text(mask_urls(value))}  ({where})\n")
    else:
        write(redactor.text("\n".join(_plan_lines(plan)) + "\n"))
    errors = plan_errors(plan)
    if errors:
        flush()  # first, so that the two streams stand in order where they meet
        sys.stderr.writelines(f"{redactor.text(error)}\n" for error in errors)
    return 2 if errors else 0


def _plan_lines(plan: Plan) -> Iterator[str]:
    """The whole plan, still with its secrets: redact the text before it is shown."""
    url = plan.settings.results_url
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
    requirements = (
        required(one) + (" (warns only)" if one.severity == "warn" else "") for one in case.requirements
    )
    facts = {
        "command": shlex.join(case.argv).replace(RUN_DIR, "{session_entry_dir}"),
        "cwd": (case.cwd or "").replace(RUN_DIR, "{session_entry_dir}"),
        "env": ", ".join(case.env),
        "timeout": duration(case.timeout_s),
        "runs": _runs(case),
        "resources": _resources(case),
        "ray": "a cluster of its own" if case.cluster is not None else "",
        "requirements": "; ".join(requirements),
        "needs": ", ".join(case.needs),
        "tags": ", ".join(case.tags),
    }
    yield from (f"    {title:<13} {visible(text)}" for title, text in facts.items() if text)


def _runs(case: Case) -> str:
    parts = [f"{case.repeat} measured"] if case.repeat > 1 or case.warmup else []
    parts += [count(case.warmup, "warm-up")] if case.warmup else []
    parts += [f"repeated up to {case.retries}× if the infrastructure fails"] if case.retries else []
    return ", ".join(parts)


def _resources(case: Case) -> str:
    wanted = case.resources
    parts = [f"{number(wanted.cpus)} CPU{'' if wanted.cpus == 1 else 's'}"]
    parts += [count(wanted.gpus, "GPU")] if wanted.gpus else []
    parts += [size(wanted.memory_bytes)] if wanted.memory_bytes else []
    parts += ["alone on the machine"] if wanted.exclusive else []
    labels = ", ".join(f"{name}={value}" for name, value in wanted.labels.items())
    parts += [f"on {labels}"] if labels else []
    return ", ".join(parts)
