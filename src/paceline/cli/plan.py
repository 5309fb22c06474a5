"""`paceline plan`: what a run would do, printed and not done."""

import atexit
import gc
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from paceline.cli.inputs import SuiteCommand, make_request, masked_errors, suite_inputs
from paceline.cli.output import error_text, flush, page_lines, write, write_encoded
from paceline.errors import ConfigError, PacelineError, SelectionError, did_you_mean
from paceline.metrics import describe
from paceline.model import RUN_DIR, Case, Plan, is_case
from paceline.numbers import count, duration, number, size
from paceline.record.layout import run_dirs
from paceline.report.format import display_width, required, unit_beside, visible
from paceline.report.table import Screen, screen_of, shorten

DEFAULT_RESULTS_PATH = f"{RUN_DIR}/benchmark_results"

EPILOG = """\b
Examples:
  paceline plan                              what ./paceline.yaml would run
  paceline plan base.yaml laptop.yaml        two files, merged
  paceline plan nightly.yaml --only tag:fast
  paceline plan base.yaml laptop.yaml --explain | grep timeout_s
  paceline plan --command 'sort[n=10]'       what to type to run a case by hand
  paceline plan nightly.yaml --json | python -m json.tool

\b
Nothing is written and no secret is shown. Each mistake is one line on standard error,
'file:line: path: what is wrong'; with any, the exit code is 2.
"""


@click.command("plan", cls=SuiteCommand, epilog=EPILOG)
@suite_inputs
@click.option("--verbose", "-v", is_flag=True, help="Print all that is known of a case, a line each.")
@click.option(
    "--command",
    "by_hand",
    metavar="CASE",
    help="Print the command that runs this case by itself, to be pasted into a shell.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
@click.option(
    "--explain",
    is_flag=True,
    help="Print every value of the merged configuration with the file and line that set it.",
)
def command(*, as_json: bool, explain: bool, verbose: bool, by_hand: str | None, **options: Any) -> int:
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
    if by_hand is not None:
        write("".join(f"{redactor.text(line)}\n" for line in _by_hand(plan, by_hand)))
        return 0
    if as_json:
        write_encoded(dump(plan_json(mask_plan(plan, redactor))) + b"\n")
    elif explain:
        from paceline.config.explain import explain as explained

        for path, value, where in explained(loaded):
            write(f"{redactor.text(path)} = {redactor.text(mask_urls(value))}  ({where})\n")
    else:
        page_lines(_plan_lines(mask_plan(plan, redactor), screen_of(sys.stdout), verbose=verbose))
    errors = plan_errors(plan)
    if errors:
        flush()  # first, so that the two streams stand in order where they meet
        sys.stderr.writelines(f"{redactor.text(error)}\n" for error in errors)
    return 2 if errors else 0


def _plan_lines(plan: Plan, screen: Screen, *, verbose: bool) -> Iterator[str]:
    """The whole plan, which holds no secret any more."""
    url = plan.settings.results_url
    place = f"{url}/{plan.session}" if url else str(plan.directory)
    yield f"Session {visible(plan.session)} in {visible(place)}"
    sinks = ", ".join(sink.name for sink in plan.sinks) or "none"
    yield f"{count(len(plan.cases), 'case')}, {count(len(plan.setups), 'data setup')}, sinks: {visible(sinks)}"
    for case in (*plan.setups, *plan.cases):
        yield from ("", *_all_lines(case)) if verbose else _two_lines(case, screen)
    yield from (screen.paint(f"warning: {visible(warning)}", "doubt") for warning in plan.warnings)


def _all_lines(case: Case) -> Iterator[str]:
    """A case with all that is known of it."""
    origin = f"  ({visible(str(case.source))})" if str(case.source) else ""
    yield f"{_name(case)}{origin}"
    yield from (f"    cannot run: {visible(case.blocked)}",) if case.blocked else ()
    yield from (f"    {title:<13} {visible(text)}" for title, text in _facts(case).items() if text)


def _two_lines(case: Case, screen: Screen) -> Iterator[str]:
    """A case with what is special about it, and its command."""
    facts = _facts(case)
    said = [f"timeout {facts['timeout']}", facts["runs"], facts["resources"]]
    said += [f"{title} {facts[title]}" for title in ("ray", "requirements", "needs", "tags") if facts[title]]
    said += [str(case.source)]
    wrong = visible(f"cannot run: {case.blocked}") if case.blocked else ""
    rest, name = wrong or visible(" · ".join(filter(None, said))), _name(case)
    if screen.width is not None:
        name = shorten(name, max(screen.width // 2, screen.width - 2 - display_width(rest)))
        rest = shorten(rest, max(0, screen.width - 2 - display_width(name)), 0)
    yield f"{screen.paint(name, 'bold')}  {screen.paint(rest, 'bad' if wrong else 'dim')}"
    if screen.width is None:
        yield f"    {visible(facts['command'])}"
    else:
        yield shorten(f"    {visible(_near(case))}", screen.width, 0)


def _near(case: Case) -> str:
    """A command as one would type it here, without what is the same for every script; -v shows it whole."""
    words = list(case.argv)
    if words[-2:] == ["--benchmark-results-path", DEFAULT_RESULTS_PATH]:
        words = words[:-2]
    here = f"{os.getcwd()}/"  # noqa: PTH109 - compared as text
    words = [word.removeprefix(here) for word in words]
    return shlex.join([Path(word).name if not at else word for at, word in enumerate(words)])


def _name(case: Case) -> str:
    return visible(f"{'data setup ' if case.kind == 'data_setup' else ''}{case.name}")


def _by_hand(plan: Plan, wanted: str) -> Iterator[str]:
    """A line of a shell for each case that is meant: it makes the directory of a run, and runs the case there."""
    named = [one for one in plan.cases if wanted in (one.name, one.declared_name, one.entry)]
    found = named or [one for one in plan.cases if is_case(wanted, one.name)]
    if not found:
        hint = did_you_mean(wanted, [one.name for one in plan.cases], "'paceline plan' lists those there are")
        raise SelectionError(f"no case {wanted!r}; {hint}")
    # What is secret is not printed: the shell has it under its name.
    secrets = {value: name for name, value in os.environ.items() if value and value in plan.secret_values}
    for case in found:
        if case.blocked:
            raise PacelineError(f"{case.name} cannot run: {case.blocked}")
        if case.cluster is not None:
            yield "# 'paceline run' starts a Ray cluster for this case; here RAY_ADDRESS has to name one"
        if case.needs:
            yield f"# after {visible(', '.join(case.needs))}"
        yield _shell_line(case, plan.session, secrets)


def _shell_line(case: Case, session: str, secrets: Mapping[str, str]) -> str:
    env = {
        **case.env,
        "PACELINE_RESULTS_PATH": case.results_path,
        "PACELINE_SESSION": session,
        "PACELINE_CASE": case.name,
    }
    variables = [f"{name}={_word(value, secrets)}" for name, value in env.items()]
    made = [_word(f"{RUN_DIR}/{name}", {}) for name in run_dirs(case)]
    if not case.results_path.startswith(RUN_DIR):
        made.append(_word(case.results_path, {}))
    command = " ".join(["env", *variables, *(_word(word, secrets) for word in case.argv)])
    steps = ("run=$(mktemp -d)", f"mkdir -p {' '.join(made)}", f"cd {_word(case.cwd or os.getcwd(), {})}")  # noqa: PTH109
    return f"({' && '.join(steps)} && {command})"


def _word(text: str, secrets: Mapping[str, str]) -> str:
    """A word for a shell, in which the run's directory and secrets are variables."""
    known = {RUN_DIR: "run", **secrets}
    pattern = "|".join(re.escape(one) for one in sorted(known, key=len, reverse=True))
    parts = re.split(f"({pattern})", text)
    return "".join(f'"${known[one]}"' if one in known else shlex.quote(one) for one in parts if one) or "''"


def _facts(case: Case) -> dict[str, str]:
    units = {one.metric: describe(one.metric, None, None, case.metrics).unit for one in case.requirements}
    requirements = (
        required(one, unit_beside(one.metric, units[one.metric]))
        + (" (warns only)" if one.severity == "warn" else "")
        for one in case.requirements
    )
    return {
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
