"""A link shows the same again: how tables are sorted, what is chosen and opened, which point is held."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, quote

from playwright.sync_api import Browser, Page, expect

from dashboard_browser import Watched, watch
from dashboard_site import NIGHTS, build_site
from paceline.history import open_store
from paceline.model import Plan
from paceline.record.directory import SessionDir
from stored_records import ENVIRONMENT, record, session

SLOW = quote("slow[n=1]", safe="")


def choices(page: Page) -> dict[str, str]:
    """What the address says, by name."""
    return {name: values[0] for name, values in parse_qs(page.url.partition("?")[2]).items()}


def first_cells(page: Page, table: str) -> list[str]:
    return page.get_by_role("table", name=table).locator("tbody tr td:first-child").all_inner_texts()


def test_how_a_table_is_sorted_has_an_address(watched: Watched, site: str) -> None:
    page = watched.open(f"{site}#/cases")
    cases = sorted(first_cells(page, "Cases"))
    head = page.get_by_role("columnheader", name="Case", exact=True)
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    assert choices(page)["sort"] == "Case.down"
    again = watched.open(page.url)
    expect(again.get_by_role("columnheader", name="Case")).to_have_attribute("aria-sort", "descending")
    assert first_cells(again, "Cases") == cases[::-1]
    nonsense = watched.open(f"{site}#/cases?sort=constructor.down&rows=-5")
    assert sorted(first_cells(nonsense, "Cases")) == cases


def test_tables_of_one_page_are_sorted_apart(watched: Watched, site: str) -> None:
    page = watched.open(f"{site}#/?last=1&health=1")
    table = page.get_by_role("table", name="The cases of the last session")
    table.get_by_role("button", name="Value").click()
    expect(table.get_by_role("columnheader", name="Value")).to_have_attribute("aria-sort", "descending")
    expect(page.locator("th[aria-sort]")).to_have_count(1)
    again = watched.open(page.url)
    expect(again.locator("th[aria-sort]")).to_have_count(1)
    assert first_cells(again, "The cases of the last session")[0] == "slow[n=2]"


def test_what_is_chosen_and_opened_elsewhere_has_an_address(watched: Watched, site: str) -> None:
    page = watched.open(f"{site}#/sessions")
    for night in (3, 7):
        page.get_by_label(f"Choose night-{night} for a comparison").check()
    again = watched.open(page.url)
    expect(again.locator("input:checked")).to_have_count(2)
    expect(again.get_by_role("button", name="Compare the two chosen")).to_be_enabled()
    page = watched.open(f"{site}#/session/{session(5).id}?case=steady")
    page.locator("summary", has_text="1 metric").click()
    page.locator("summary", has_text="Environment").click()
    expect(page.locator("pre.code")).to_contain_text("hostname")
    again = watched.open(page.url)
    expect(again.locator("pre.code")).to_contain_text("hostname")
    expect(again.locator("dl.metrics a")).to_have_count(0)


def drag(page: Page, share_from: float, share_to: float) -> None:
    box = page.locator(".chart .area").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * share_from, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * share_to, box["y"] + 104, steps=4)
    page.mouse.up()


STRETCH = """([first, last]) => {
    const said = new URLSearchParams(location.hash.split('?')[1]);
    const night = (name) => {
        const date = new Date(`${said.get(name)}Z`);
        return date.getUTCMonth() * 28 + date.getUTCDate() - 1;
    };
    return Math.abs(night('from') - first) <= 1 && Math.abs(night('to') - last) <= 1;
}"""
"""Whether the address has the stretch from one night to another: sessions are 28 a month."""


def wait_for_stretch(page: Page, first: int, last: int) -> None:
    """Until the address has this stretch of the axis: it follows when the hand rests, and a slow hand rests often."""
    page.wait_for_function(STRETCH, arg=[first, last])


def test_what_a_drag_does_has_an_address(watched: Watched, site: str) -> None:
    page = watched.open(f"{site}#/case/{SLOW}?from=2026-01-01T00:00:00&to=2026-01-20T00:00:00")
    page.get_by_role("button", name="Drag pans").click()
    again = watched.open(page.url)
    expect(again.get_by_role("button", name="Drag pans")).to_have_attribute("aria-pressed", "true")
    drag(again, 0.7, 0.2)
    wait_for_stretch(again, 10, 29)  # panned, and not zoomed
    again.go_back()
    wait_for_stretch(again, 0, 19)  # undone
    again.get_by_role("button", name="Show all").click()
    expect(again.get_by_role("button", name="Show all")).to_be_disabled()
    drag(again, 0.7, 0.2)  # there is no more to pan to
    expect(again.get_by_role("button", name="Show all")).to_be_disabled()


def test_a_view_stays_where_it_is_when_older_records_are_added(watched: Watched, tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        for night in range(10, 30):
            store.add(session(night), ENVIRONMENT, [record("sort", 1.0 + night, number=night)])
    build_site(tmp_path / "benchmark.db", tmp_path / "out")
    address = (
        f"{(tmp_path / 'out').as_uri()}/index.html#/case/sort?from=2026-01-15T00:00:00&to=2026-01-20T00:00:00"
    )
    rows = watched.open(f"{address}&table=1").locator("tbody").inner_text()
    assert "night-14" in rows and "night-13" not in rows and rows.count("night-") == 6
    with open_store(tmp_path / "benchmark.db") as store:
        for night in range(10):
            store.add(session(night), ENVIRONMENT, [record("sort", 1.0 + night, number=night)])
    build_site(tmp_path / "benchmark.db", tmp_path / "out")
    assert watched.open(f"{address}&table=1").locator("tbody").inner_text() == rows


def make_logs(directory: Path) -> str:
    """Three nights of a case, with what it wrote."""
    with open_store(directory / "benchmark.db") as store:
        for night in range(3):
            path = directory / f"night-{night}"
            one = record("sort", 1.0 + night, number=night)
            store.add(session(night, directory=str(path)), ENVIRONMENT, [one])
            entry = SessionDir.create(Plan(session=path.name, directory=path)).prepare(one.case)
            (entry / "logs" / "stdouterr.log").write_text(f"wrote this in night {night}\n" * 40)
    build_site(directory / "benchmark.db", directory / "out")
    return f"{(directory / 'out').as_uri()}/index.html"


def expect_log(page: Page, night: int) -> None:
    expect(page.locator("h1")).to_have_text(f"night-{night}")
    log = page.locator("pre.log")
    expect(log).to_contain_text(f"wrote this in night {night}")
    expect(log).to_be_focused()
    expect(log).to_be_in_viewport()


def test_a_point_that_is_held_leads_to_its_log(watched: Watched, tmp_path: Path) -> None:
    site = make_logs(tmp_path)
    page = watched.open(f"{site}#/case/sort")
    box = page.locator(".chart .area").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    tip = page.locator(".tip")
    expect(tip).to_contain_text("night-1")
    expect(tip.get_by_role("link")).to_have_count(0)
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 60)
    held = page.get_by_role("group", name="Point held")
    expect(held).to_contain_text("night-1")
    page.mouse.move(box["x"] + box["width"] * 0.99, box["y"] + 60)
    expect(page.locator(".tip:not(.held)")).to_contain_text("night-2")
    again = watched.open(page.url)
    held.get_by_role("link", name="Log of this run").click()
    expect_log(again, 1)
    again.go_back()
    held.get_by_role("button", name="Let go of this point").click()
    expect(held).to_have_count(0)
    assert "a" not in choices(again)


def test_keys_alone_lead_to_the_log(watched: Watched, tmp_path: Path) -> None:
    page = watched.open(f"{make_logs(tmp_path)}#/case/sort")
    page.locator(".chart").focus()
    for key in ("End", "Enter"):
        page.keyboard.press(key)
    expect(page.get_by_role("link", name="Log of this run")).to_be_visible()
    box = page.get_by_role("group", name="Point held").bounding_box()
    assert box and box["width"] > box["height"]  # the edge of the chart does not squeeze it
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Log of this run")).to_be_focused()
    page.keyboard.press("Enter")
    expect_log(page, 2)


@contextmanager
def touching(browser: Browser) -> Iterator[Watched]:
    """A page under fingers."""
    context = browser.new_context(viewport={"width": 420, "height": 800}, has_touch=True)
    found = watch(context)
    yield found
    assert found.complaints == []
    context.close()


def test_two_fingers_zoom_and_one_holds_a_point(browser: Browser, site: str) -> None:
    with touching(browser) as found:
        page = found.open(f"{site}#/case/{SLOW}")
        box = page.locator(".chart .area").bounding_box()
        assert box
        fingers = page.context.new_cdp_session(page)
        middle, y = box["x"] + box["width"] / 2, box["y"] + 80

        def put(kind: str, *offsets: float) -> None:
            points = [{"x": middle + offset, "y": y, "id": place} for place, offset in enumerate(offsets)]
            fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        put("touchStart", -30)
        put("touchStart", -30, 30)
        for reach in (35, 45, 60):
            put("touchMove", -reach, reach)
        put("touchEnd")
        wait_for_stretch(page, NIGHTS // 4, NIGHTS * 3 // 4 - 1)
        assert "a" not in choices(page)  # two fingers hold no point
        page.touchscreen.tap(middle + box["width"] / NIGHTS, y)  # half the points are in sight now
        held = page.get_by_role("group", name="Point held")
        expect(held).to_contain_text(re.compile(f"night-({NIGHTS // 2}|{NIGHTS // 2 + 1})"))
