"""Names, logs and labels that try to be markup or code stay text, on every page."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

from playwright.sync_api import expect

from dashboard_browser import Watched
from dashboard_site import build_site
from paceline.history import open_store
from paceline.history.session_info import SessionInfo
from paceline.model import Case, Check, Measurement, Plan, Record, Status
from paceline.record.directory import SessionDir
from stored_records import session

TRICKS = (
    "<img src=x onerror='window.pwned=1'>",
    "</script><script>window.pwned=1</script>",
    "'+(window.pwned=1)+'",
    "\\'),(window.pwned=1),('",
    "${window.pwned=1}`",
    "__proto__",
    "constructor",
    "javascript:window.pwned=1",
    "\u2028\u2029\u202eevil\u0007",
    '"><svg onload=window.pwned=1>',
    "{{constructor.constructor('window.pwned=1')()}}",
    "../../../etc/passwd",
)


def hostile_record(number: int, trick: str, place: int) -> Record:
    value = Measurement(value=1.0 + number, unit=trick, direction="lower", samples=(1.0, 2.0 + number))
    check = Check(
        metric=trick, kind="max_value", bound=trick, actual=trick, margin=None, ok=False, reason=trick
    )
    details: dict[str, Any] = {"source": f"{trick}\n{number}"}
    return Record(
        session=f"night-{number}",
        case=Case(name=trick, entry=trick, key=trick, params={trick: trick}, tags=(trick,)),
        attempt=1,
        status=Status.FAILED if number % 2 else Status.PASSED,
        reason=trick,
        started_at=session(number).started_at,
        exec_time_s=1.0,
        timings_s={trick: 1.0, "run": 2.0},
        command=(trick, trick),
        metrics={trick: value, f"task_{trick}_process_time_sum": value, "wall_s": value},
        params={trick: {trick: trick}},
        requirements=(check,),
        warnings=(trick,),
        environment=f"env-{place % 2}-{number % 2}",
        revision=trick,
        details=details,
    )


def make_hostile(directory: Path) -> str:
    results = directory / "results"
    with open_store(directory / "benchmark.db") as store:
        for number in range(4):
            name = f"night-{number}"
            trick = TRICKS[number]
            info = SessionInfo(
                id=session(number).id,
                name=f"{name} {trick}",
                started_at=session(number).started_at,
                revision=TRICKS[number + 4],
                branch=trick,
                ci_run_url="javascript:window.pwned=1",
                tool=trick,
                directory=str(results / name),
            )
            records = [hostile_record(number, one, place) for place, one in enumerate(TRICKS)]
            environment = {
                "id": f"env-0-{number % 2}",
                "class_id": trick,
                "hostname": trick,
                trick: trick,
                "packages": {trick: trick},
            }
            store.add(info, environment, records)
            write_logs(results / name, records)
        store.reset(TRICKS[0], TRICKS[1])
    build_site(directory / "benchmark.db", directory / "out", title=TRICKS[0])
    return f"{(directory / 'out').as_uri()}/index.html"


def write_logs(directory: Path, records: list[Record]) -> None:
    opened = SessionDir.create(Plan(session=directory.name, directory=directory))
    for record in records:
        entry = opened.prepare(record.case)
        (entry / "logs" / "stdouterr.log").write_text(
            "\n".join(["\x1b[31mred\x1b[0m", *TRICKS, record.case.name])
        )
        (entry / "resources.csv").write_text(f"t_s,{TRICKS[0].replace(',', '')}\n0,1\n1,2\n2,3\n")


def test_nothing_in_the_data_becomes_code(watched: Watched, tmp_path: Path) -> None:
    site = make_hostile(tmp_path)
    ids = [session(number).id for number in range(4)]
    pages = [
        "",
        "#/cases",
        "#/sessions",
        f"#/compare?a=s%3A{ids[0]}&b=s%3A{ids[2]}&all=1",
        f"#/compare?a=s%3A{ids[0]}&b=s%3A{ids[2]}&all=1&view=heat",
    ]
    pages += [f"#/case/{quote(trick, safe='')}?m={quote(trick, safe='')}&a=1.0&b=2.0" for trick in TRICKS]
    pages += [f"#/session/{ids[2]}?case={quote(trick, safe='')}" for trick in TRICKS[:4]]
    for address in pages:
        page = watched.open(site + address)
        page.evaluate(
            "() => document.querySelectorAll('details:not([open]) > summary').forEach(one => one.click())"
        )
        assert page.evaluate(
            "() => [typeof window.pwned, document.querySelectorAll('img, iframe, object').length]"
        ) == [
            "undefined",
            0,
        ], address
        hrefs = page.eval_on_selector_all("a[href]", "all => all.map(a => a.getAttribute('href'))")
        assert not [href for href in hrefs if not href.startswith(("#", "feed.xml"))], address
        assert page.evaluate(
            "() => ({}).polluted === undefined && Object.keys(Object.prototype).length === 0"
        )


def test_tricks_are_shown_as_they_are(watched: Watched, tmp_path: Path) -> None:
    site = make_hostile(tmp_path)
    page = watched.open(f"{site}#/case/{quote(TRICKS[0], safe='')}")
    expect(page.locator("h1")).to_have_text(TRICKS[0])
    page = watched.open(f"{site}#/session/{session(2).id}?case={quote(TRICKS[1], safe='')}")
    log = page.locator("pre.log")
    expect(log).to_contain_text(TRICKS[1])
    expect(log).to_contain_text("red")
    page.get_by_label("Search the output").fill("onerror")
    expect(page.get_by_role("status").filter(has_text="line")).to_have_text("1 line")


def test_feed_and_badges_are_well_formed(tmp_path: Path) -> None:
    from xml.etree import ElementTree

    make_hostile(tmp_path)
    for name in ("feed.xml", "badges/session.svg", "badges/regressions.svg"):
        ElementTree.fromstring((tmp_path / "out" / name).read_text())
