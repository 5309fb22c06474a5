"""Why a case got worse: both sides run once more under a profiler, never in the runs that are measured."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import which
from typing import Any, Literal
from urllib.parse import quote

from paceline.errors import PacelineError
from paceline.experiments import trials
from paceline.experiments.explain.flame import flame_page
from paceline.experiments.explain.stacks import (
    Difference,
    Profile,
    differences,
    read_memray,
    read_perf,
    read_py_spy,
)
from paceline.experiments.page import in_html
from paceline.experiments.trials import TrialSetting
from paceline.model import Case, is_finite
from paceline.numbers import quantity
from paceline.record.files import write_atomic
from paceline.record.layout import safe_name
from paceline.report.format import visible
from paceline.report.markdown import escape
from paceline.sinks.digest import inert

Kind = Literal["py-spy", "perf", "memray"]
RATE = 500
_MOSTLY_IDLE = 0.5
"""Of the time: below this share of work, waiting is what the profile must show, too."""
_ATTEMPTS = 4
"""On a busy machine py-spy may give up before Python has begun."""
_MOST_DIFF_LINES = 150
_MEMRAY = 'python=$1; shift; exec "$python" -m memray run --quiet --force --output "$0" "$@"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What is known of why a metric of a case got worse; `note` says why there is no profile."""

    case: str
    metric: str
    kind: str = ""
    unit: str = "s"
    functions: tuple[Difference, ...] = ()
    graph: Path | None = None
    diff: str = ""
    note: str = ""


def explain(
    case: Case,
    metric: str,
    unit: str | None,
    sides: tuple[TrialSetting, TrialSetting],
    *,
    diff: Callable[[Sequence[str]], str],
    out: Path,
) -> Explanation:
    """Profile a case in both settings, the base first; `diff` gives the changes of some files, or of all."""
    out = out.absolute()  # the profiler runs in the tree
    known = Explanation(case=case.name, metric=metric)
    kind, why = _profiler(case, unit)
    functions: tuple[Difference, ...] = ()
    profiles: tuple[Profile, Profile] | None = None
    try:
        if kind is not None:
            profiles = _profiles(case, kind, sides, out)
            functions = tuple(differences(*profiles))
            known = replace(known, kind=kind, unit=profiles[0].unit, functions=functions)
        known = replace(known, note=why, diff=_changes(diff, functions))
        if profiles is None:
            return known
        graph = out / f"{safe_name(case.name)}-{kind}.html"
        page = flame_page(f"{case.name}: {metric}, base and head", *profiles, explanation_html(known))
        write_atomic(graph, page.encode("utf-8", "replace"))
        return replace(known, graph=graph)
    except trials.Interrupted:
        raise
    except (PacelineError, RuntimeError, OSError, ValueError, subprocess.SubprocessError) as error:
        # A profiler is a guest: whatever it does, the loss stands.
        return replace(known, note=f"no profile: {kind}: {' '.join(str(error).split())[:200]}")


def _changes(diff: Callable[[Sequence[str]], str], functions: Sequence[Difference]) -> str:
    """What changed in the files of the functions that grew, else at all; which files those are, if it is much."""
    names = dict.fromkeys(one.name.rpartition(" (")[2].removesuffix(")") for one in functions)
    files = [name for name in names if not name.startswith(("/", "<", ":", "[", ".."))]
    found = (diff(files) if files else "") or diff(["."])
    lines = found.splitlines()
    more = len(lines) - _MOST_DIFF_LINES
    if more <= 0:
        return found
    return diff([]) if not files else "\n".join([*lines[:_MOST_DIFF_LINES], f"… {more} more lines"])


def _profiler(case: Case, unit: str | None) -> tuple[Kind | None, str]:
    """Which profiler fits, and else why there is none."""
    is_python = bool(case.script and case.script.endswith(".py")) or (
        bool(case.argv) and Path(case.argv[0]).name.startswith("python")
    )
    if unit in ("bytes", "B") and is_python:
        python = case.argv[0]
        if subprocess.run([python, "-c", "import memray"], check=False, capture_output=True).returncode == 0:
            return "memray", ""
        return None, f"no profile: {python} has no memray: install it there"
    if is_python:
        return (
            ("py-spy", "")
            if find_py_spy()
            else (None, "no profile: install py-spy, which shows Python's functions")
        )
    if which("perf"):
        return "perf", ""
    return None, "no profile: the benchmark is no Python program, and perf is not installed"


def find_py_spy() -> str | None:
    """The py-spy beside our Python, else the one on PATH."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else which("py-spy")


def _profiles(
    case: Case,
    kind: Kind,
    sides: tuple[TrialSetting, TrialSetting],
    out: Path,
) -> tuple[Profile, Profile]:
    out.mkdir(parents=True, exist_ok=True)
    found: list[Profile] = []
    for idle in (False, True):
        found, took_s = [], []
        for setting in sides:
            file = out / f"{safe_name(case.name)}-{safe_name(setting.name)}{'-idle' if idle else ''}.{kind}"
            took_s.append(_run(case, setting, kind, file, idle=idle))
            found.append(_read(kind, file, [str(setting.worktree.path)] if setting.worktree else []))
        if kind != "py-spy" or found[1].total > _MOSTLY_IDLE * took_s[1]:
            break
    return found[0], found[1]


def _run(case: Case, setting: TrialSetting, kind: Kind, file: Path, *, idle: bool) -> float:
    """One run under a profiler; how long it took."""
    words: tuple[str, ...]
    if kind == "py-spy":
        options = ("--rate", str(RATE), "--function", "--full-filenames", "--format", "raw", "--subprocesses")
        waits = ("--idle",) if idle else ()
        words = (find_py_spy() or "py-spy", "record", *options, *waits, "--output", str(file), "--")
    elif kind == "perf":
        words = ("perf", "record", "-F", str(RATE), "-g", "-o", str(file), "--")
    else:
        words = ("sh", "-c", _MEMRAY, str(file))
    name = f"{setting.name}-{kind}{'-idle' if idle else ''}"
    profiled = replace(setting, name=name, only=(case.name,), exclude=(), jobs=1, wrapped={case.name: words})
    for attempt in range(1, _ATTEMPTS + 1):
        records = trials.run_trial(profiled, attempt)
        record = next(one for one in records if one.case.key == case.key)
        if file.exists():
            return record.exec_time_s if is_finite(record.exec_time_s) else 0.0
    raise RuntimeError(f"it wrote nothing: {record.status}: {record.reason}".rstrip(": "))


def _read(kind: Kind, file: Path, places: Sequence[str]) -> Profile:
    if kind == "py-spy":
        return read_py_spy(file, rate=RATE, places=places)
    return read_perf(file, rate=RATE, places=places) if kind == "perf" else read_memray(file, places=places)


def explanation_html(one: Explanation) -> Iterator[str]:
    """Lines of HTML, for a page in the directory above that of the graph, or for the graph's own."""
    if one.note:
        yield f"<p>{in_html(one.note)}.</p>"
    if one.graph:
        place = in_html(quote(f"{one.graph.parent.name}/{one.graph.name}"))
        yield f'<p><a href="{place}">Differential flame graph</a></p>'
    if one.functions:
        yield "<h2>What grew</h2><table><tr><th>function</th><th>base</th><th>head</th></tr>"
        for function in one.functions:
            values = (quantity(function.base, one.unit), quantity(function.head, one.unit))
            cells = "".join(f"<td>{in_html(text)}</td>" for text in (function.name, *values))
            yield f"<tr>{cells}</tr>"
        yield "</table>"
    if one.diff:
        shown = "\n".join(in_html(line) for line in one.diff.splitlines())
        yield f"<h2>What changed</h2><pre>{shown}</pre>"


def in_comment(text: str) -> str:
    """Foreign text in Markdown: shown as it is, calling nobody and leading nowhere."""
    return inert(escape(text))


def explanation_lines(one: Explanation) -> Iterator[str]:
    """What a terminal shows."""
    yield visible(f"why {one.case} {one.metric}: {one.note or f'by {one.kind}, in functions themselves'}")
    for function in one.functions[:5]:
        values = f"{quantity(function.base, one.unit)} → {quantity(function.head, one.unit)}"
        yield visible(f"  {function.name}: {values}")
    if one.kind and not one.functions:
        yield "  no function stands out"
    if one.graph:
        yield visible(f"  {one.graph}")


def explanation_markdown(one: Explanation) -> Iterator[str]:
    """The same for a pull request, with what changed folded away."""
    yield from ("", f"### Why {in_comment(one.case)} {in_comment(one.metric)}", "")
    if one.note:
        yield in_comment(one.note) + "."
    elif one.functions:
        yield from ("| function | base | head |", "|---|---:|---:|")
        for function in one.functions:
            values = (quantity(function.base, one.unit), quantity(function.head, one.unit))
            yield f"| {in_comment(function.name)} | {' | '.join(map(in_comment, values))} |"
        yield ""
        graph = f"; the differential flame graph is in `{one.graph.name}`" if one.graph else ""
        yield f"Spent in the functions themselves, by {one.kind}{graph}."
    else:
        yield f"No function stands out in the profile by {one.kind}."
    if one.diff:
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", one.diff)), default=0))
        yield from ("", "<details><summary>What changed</summary>", "", f"{fence}diff")
        yield from map(visible, one.diff.splitlines())
        yield from (fence, "", "</details>")


def explanation_json(one: Explanation) -> dict[str, Any]:
    return {
        "case": one.case,
        "metric": one.metric,
        "profiler": one.kind or None,
        "unit": one.unit,
        "functions": [{"name": each.name, "base": each.base, "head": each.head} for each in one.functions],
        "graph": str(one.graph) if one.graph else None,
        "diff": one.diff,
        "note": one.note or None,
    }
