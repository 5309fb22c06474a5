"""A plan as text: each case with what decides how it runs, and where it was written."""

import shlex
from collections.abc import Iterator

from paceline.model import RUN_DIR, Case, Plan
from paceline.report.format import duration, required, size, visible

_INDENT = "    "


def plan_lines(plan: Plan) -> Iterator[str]:
    """The whole plan, still with its secrets: redact the text before it is shown."""
    url = plan.settings.get("results_url")
    place = f"{url}/{plan.session}" if url else str(plan.directory)
    yield f"Session {visible(plan.session)} in {visible(place)}"
    sinks = ", ".join(sink.name for sink in plan.sinks) or "none"
    yield f"{_count(len(plan.cases), 'case')}, {_count(len(plan.setups), 'data setup')}, sinks: {visible(sinks)}"
    for case in (*plan.setups, *plan.cases):
        yield ""
        yield from _case_lines(case)
    yield from (f"warning: {visible(warning)}" for warning in plan.warnings)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _case_lines(case: Case) -> Iterator[str]:
    kind = "data setup " if case.kind == "data_setup" else ""
    origin = f"  ({visible(str(case.source))})" if str(case.source) else ""
    yield f"{kind}{visible(case.name)}{origin}"
    if case.blocked:
        yield f"{_INDENT}cannot run: {visible(case.blocked)}"
    for title, text in _facts(case):
        if text:
            yield f"{_INDENT}{title:<13} {visible(text)}"


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
    parts += [_count(case.warmup, "warm-up")] if case.warmup else []
    parts += [f"repeated up to {case.retries}× if the infrastructure fails"] if case.retries else []
    return ", ".join(parts)


def _resources(case: Case) -> str:
    wanted = case.resources
    parts = [_count(wanted.gpus, "GPU")] if wanted.gpus else []
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
