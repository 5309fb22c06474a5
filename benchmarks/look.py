"""What people see of a history of real size: a gate on the page and on the terminal.

    python benchmarks/look.py --archive asv-results.tar.xz     the results of a project that uses asv
    python benchmarks/look.py                                  a generated history of that shape
    python benchmarks/look.py --quick                          a small one: a minute
    python benchmarks/look.py --db FILE --site DIR             what is there already, also of another version, with
                               --program 'python -m paceline'  its own command

Builds the site, drives it in Chromium, runs commands on a terminal of 100 columns. Prints: whether the totals of the
page are those of the command line; whether a small chart contradicts its verdict; how tall the first page is; how soon
there is something to read; sizes; what an accessibility check finds; lines and widths of each command; and what five
everyday questions take in clicks. Needs Chromium.
"""

import argparse
import json
import re
import shlex
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE)]

from figures import Row, finish, make_parser  # noqa: E402
from look_parts.history import make_history  # noqa: E402
from look_parts.pages import Looked, browsing, packed_kb, read_data  # noqa: E402
from look_parts.tasks import do_tasks  # noqa: E402
from look_parts.terminal import Printed, run_on_terminal  # noqa: E402

COLUMNS = 100
AXE = HERE.parent / "tests" / "dashboard" / "axe.min.js"
SHOWS = ("", "better", "ended", "acknowledged", "closed")
SUITE = """entries:
  - {name: count, command: [seq, "100000"]}
  - {name: list, command: [ls, /]}
  - {name: breaks, command: [sh, -c, "echo it broke >&2; exit 3"]}
"""
_TOTAL = re.compile(r"(\d[\d,]*|no) (open regression|better)")


def main(words: Sequence[str] | None = None) -> int:
    args = parse(words)
    with tempfile.TemporaryDirectory(prefix="paceline-look-") as directory:
        work = args.keep or Path(directory)
        work.mkdir(parents=True, exist_ok=True)
        program = shlex.split(args.program) if args.program else [sys.executable, "-m", "paceline"]
        database = (args.db or prepare(args, work, program)).resolve()
        printed = run_on_terminal(program, ["regressions", "--db", str(database)], COLUMNS, work)
        site = (args.site or build(program, database, work / "site")).resolve()
        overview = read_data(site, "overview")
        totals = totals_of(printed) or count_totals(program, database)
        rows = look(site, overview, totals, has_tasks=not args.site)
        rows += type_commands(program, database, work, overview, printed)
    return finish(
        args, rows, num_cases=overview["counts"]["cases"], num_sessions=overview["counts"]["sessions"]
    )


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = make_parser(__doc__)
    parser.add_argument("--archive", type=Path, help="results of asv: an archive or a directory")
    parser.add_argument("--db", type=Path, help="a history that is there already")
    parser.add_argument("--site", type=Path, help="its site, if that is there too")
    parser.add_argument("--program", help="the command that made them")
    parser.add_argument("--cases", type=int, default=257)
    parser.add_argument("--commits", type=int, default=700)
    parser.add_argument("--quick", action="store_true", help="24 cases and 90 commits")
    parser.add_argument("--keep", type=Path, help="keep history and site here")
    args = parser.parse_args(words)
    if args.quick:
        args.cases, args.commits = 24, 90
    return args


def prepare(args: argparse.Namespace, work: Path, program: Sequence[str]) -> Path:
    """The history: that of the archive, or a generated one."""
    database = work / "look.db"
    if database.exists():
        return database
    if args.archive is None:
        make_history(database, args.cases, args.commits)
        return database
    results = args.archive
    if args.archive.is_file():
        results = work / "results"
        with tarfile.open(args.archive) as files:
            files.extractall(results, filter="data")
    subprocess.run([*program, "history", "import", str(results), "--db", str(database)], check=True)
    return database


def build(program: Sequence[str], database: Path, site: Path) -> Path:
    words = ["dashboard", "build", str(site), "--db", str(database), "--results", str(database.parent)]
    subprocess.run([*program, *words], check=True, stdout=subprocess.DEVNULL)
    return site


def look(site: Path, overview: Any, totals: dict[str, int], *, has_tasks: bool) -> list[Row]:
    """The figures of the pages."""
    places = addresses(overview)
    with browsing(site) as screens:
        wide, phone = screens["light"], screens["phone"]
        rows = [*_truth(wide, totals), *_size(site, wide, phone, places)]
        if AXE.is_file():
            found = [
                one
                for name in ("light", "dark", "phone")
                for place in places.values()
                for one in screens[name].violations(place, AXE.read_text())
            ]
            detail = "; ".join(found[:3]) or f"{len(places)} pages, light, dark and on a phone"
            rows.append(_row("axe: violations", "axe_violations", len(found), 0, detail))
        if has_tasks:
            _say_tasks(wide, overview)
        complaints = [text for one in screens.values() for text in one.complaints]
        rows.append(
            _row("errors in the console", "console_errors", len(complaints), 0, "; ".join(complaints[:2]))
        )
    return rows


def addresses(overview: Any) -> dict[str, str]:
    """A page of each kind."""
    listed = overview.get("incidents") or overview.get("findings") or []
    last = overview["sessions"][0]["id"]
    name = listed[0]["case"] if listed else overview["last"]["rows"][0]["case"]
    case = f"#/case/{quote(name, safe='')}"
    found = {"home": "#/", "case": case, "all parameters": f"{case}?all=1", "cases": "#/cases"}
    found |= {"sessions": "#/sessions", "session": f"#/session/{last}", "compare": "#/compare"}
    if overview.get("incidents"):
        found["incident"] = f"#/incident/{listed[0]['id']}"
    if overview.get("tags"):
        found["releases"] = "#/releases"
    return found


def _row(what: str, metric: str, figure: float, bound: float, detail: str, unit: str = "") -> Row:
    return Row(what=what, metric=metric, figure=figure, bound=bound, unit=unit, detail=detail)


def _truth(wide: Looked, told: dict[str, int]) -> list[Row]:
    ours = wide.totals()
    wrong = {name: (ours.get(name), number) for name, number in told.items() if ours.get(name) != number}
    detail = f"the page says {ours}, the command {told}"
    count, against = wide.sparks(SHOWS)
    return [
        _row("totals that are not the command's", "wrong_totals", len(wrong), 0, detail),
        _row(
            "small charts that do not show their change",
            "wrong_sparks",
            len(against),
            0,
            f"of {count}; {against[:4]}",
        ),
    ]


def totals_of(printed: Printed) -> dict[str, int]:
    """What the command line says that it counts."""
    text = "\n".join(printed.lines)
    found = {("better" if name == "better" else "open"): number for number, name in _TOTAL.findall(text)}
    return {name: 0 if number == "no" else int(number.replace(",", "")) for name, number in found.items()}


def count_totals(program: Sequence[str], database: Path) -> dict[str, int]:
    """The same of a version that did not say so yet: the incidents with something new."""
    words = [*program, "regressions", "--json", "--db", str(database)]
    findings = json.loads(subprocess.run(words, capture_output=True, text=True, check=False).stdout)
    kinds = {"open": "worse", "better": "better"}
    return {
        name: len({one["incident"] for one in findings if (one["verdict"], one["state"]) == (kind, "new")})
        for name, kind in kinds.items()
    }


def _size(site: Path, wide: Looked, phone: Looked, places: dict[str, str]) -> list[Row]:
    assets = site / "assets"
    scripts = packed_kb(*assets.glob("*.js"))
    first = scripts + packed_kb(assets / "app.css", site / "index.html", site / "data" / "overview.js")
    soon = {
        name: statistics.median(wide.first_content_ms(place) for _ in range(3))
        for name, place in places.items()
    }
    slowest = max(soon, key=lambda name: soon[name])
    wider = {name: over for name, place in places.items() if (over := phone.overflow(place)) > 0}
    listed = ", ".join(f"{name} {value:.0f}" for name, value in soon.items())
    return [
        _row("height of the first page", "home_screens", wide.height(), 2, "1400 × 900", "screens"),
        _row("the same on a phone", "home_phone_screens", phone.height(), 5, "390 × 844", "screens"),
        _row("something to read, slowest page", "first_content_ms", soon[slowest], 1000, listed, "ms"),
        _row("scripts, packed", "scripts_kb", scripts, 90, "all of them", "kB"),
        _row("first page, packed", "first_load_kb", first, 300, "with its data", "kB"),
        _row("pages wider than a phone", "wide_pages", len(wider), 0, str(wider or "390 px")),
    ]


def _say_tasks(wide: Looked, overview: Any) -> None:
    listed = overview["incidents"]
    case = listed[0]["case"] if listed else overview["last"]["rows"][0]["case"]
    print(f"{'task':<42} {'clicks':>6} {'pages take':>10}  answer")
    for one in do_tasks(wide, case, has_releases=bool(overview["tags"]), since="1y"):
        keys = f" and {one.keys}" if one.keys else ""
        print(f"{one.question:<42} {one.clicks:>6} {one.seconds:>8.2f} s  {one.answer[:90]}{keys}")
    print()


def type_commands(
    program: Sequence[str], database: Path, work: Path, overview: Any, regressions: Printed
) -> list[Row]:
    """Lines and widths of each command."""
    suite = work / "suite"
    suite.mkdir(exist_ok=True)
    (suite / "paceline.yaml").write_text(SUITE)
    listed = overview.get("incidents") or overview.get("findings") or overview["last"]["rows"]
    case, db = listed[0]["case"], ["--db", str(database)]
    commands = [
        ["--help"],
        ["history", "list", *db],
        ["history", "log", case, *db],
        ["compare", *alike(overview), *db],
        ["plan"],
        ["run", "--no-history"],
        ["list"],
    ]
    found = [regressions, *(run_on_terminal(program, words, COLUMNS, suite) for words in commands)]
    print(f"{'command, at ' + str(COLUMNS) + ' columns':<42} {'lines':>6} {'widest':>7}")
    for one in found:
        name = one.command.replace(str(database), "DB")
        print(f"{name[:42]:<42} {len(one.lines):>6,} {one.widest:>7}")
    print()
    widest = max(found, key=lambda one: one.widest)
    compared = next(one for one in found if one.command.startswith("compare"))
    return [
        _row("widest line of a command", "widest_columns", widest.widest, COLUMNS, widest.command[:60]),
        _row("lines of regressions", "regressions_lines", len(regressions.lines), 60, "at 100 columns"),
        _row("lines of compare", "compare_lines", len(compared.lines), 60, compared.command[:60]),
    ]


def alike(overview: Any) -> list[str]:
    """The newest session and the newest before it on the same machines."""
    sessions = overview["sessions"]
    sorts = [(one.get("environments"), one.get("variants")) for one in sessions]
    before = next(
        (one for one, sort in zip(sessions[1:], sorts[1:], strict=True) if sort == sorts[0]), sessions[-1]
    )
    return [before["name"], sessions[0]["name"]]


if __name__ == "__main__":
    sys.exit(main())
