"""The site in a real browser, opened from disk: every page, and what can be done on it."""

import csv
import io
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from dashboard_browser import Watched, choose_side, serious, watch
from dashboard_site import NIGHTS, STEP, WOBBLE, build_site, make_history
from paceline.history import open_store
from paceline.model import Status
from stored_records import ENVIRONMENT, case, record, session

SLOW = quote("slow[n=1]", safe="")


def session_id(page: Page, place: int) -> str:
    """The id of a session in the list, newest first."""
    return str(session(NIGHTS - 1 - place).id)


def test_the_first_page_is_a_queue_of_what_needs_somebody(watched: Watched, site: str) -> None:
    page = watched.open(site)
    expect(page).to_have_title("(1) Inbox · Nightly")
    first = page.locator(".queue .line").first
    expect(first).to_contain_text("slow[n=1]")
    expect(first).to_contain_text("worse")
    expect(page.locator("[data-total=open]")).to_contain_text("1 open regression")
    broken = page.locator("section", has_text="Broken").first
    expect(broken).to_contain_text("1 case exit code 3")
    broken.locator("summary").click()
    expect(broken.locator("tbody")).to_contain_text("breaks")
    page.keyboard.press("j")
    expect(first.locator(".line-link")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("slow[n=1]")
    assert "#/incident/" in page.url
    page.go_back()
    expect(page.locator(".queue")).to_be_visible()


def test_what_it_is_narrowed_down_to_is_in_the_address_and_in_every_number(
    watched: Watched, site: str
) -> None:
    page = watched.open(site)
    page.get_by_label("Changes of").select_option("7d")
    assert "since=7d" in page.url
    again = watched.open(page.url)
    expect(again.locator("[data-total=open]")).to_contain_text("0 open regressions")
    expect(again.locator("[data-total=broken]")).to_contain_text("1 broken case")
    expect(again.get_by_role("tab", name="Needs somebody")).to_contain_text("0")
    expect(again.locator(".quiet")).to_contain_text("Nothing here")
    again.get_by_role("button", name="Show all").click()
    expect(again.locator("[data-total=open]")).to_contain_text("1 open regression")
    assert "since" not in again.url
    again = watched.open(f"{site}#/?since=2026-01-20")
    expect(again.locator("[data-total=open]")).to_contain_text("1 open regression")
    expect(watched.open(f"{site}#/?since=soon").locator(".warning")).to_contain_text(
        "no tag, age or date: soon"
    )


def test_an_incident_opens_at_its_change(watched: Watched, site: str) -> None:
    page = watched.open(site)
    page.locator(".line-link").first.click()
    expect(page.locator("h1")).to_contain_text("worse")
    expect(page.locator(".change-label.chosen")).to_contain_text("▲ +5")
    expect(page.locator(".change.chosen")).to_have_count(1)
    expect(page.locator(".incident-head")).to_contain_text("95 %")
    expect(page.locator(".command", has_text="paceline bisect --regression")).to_be_visible()
    page.get_by_role("link", name="First bad run").click()
    expect(page.locator("h1")).to_have_text(f"night-{STEP}")
    page.go_back()
    page.get_by_role("button", name="Answer").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Expected").check()
    dialog.get_by_label("Why").fill("it's slower; $(true)")
    expect(dialog.locator("code")).to_contain_text("expected --why 'it'\\''s slower; $(true)'")
    expect(dialog.get_by_role("button", name="Store it")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def test_a_case_is_drawn_zoomed_and_its_address_shows_the_same_again(watched: Watched, site: str) -> None:
    page = watched.open(f"{site}#/case/{SLOW}")
    expect(page.locator(".facts .noise")).to_contain_text("sees changes from")
    box = page.locator(".chart .area").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 110, steps=5)
    page.mouse.up()
    expect(page.get_by_role("button", name="Show all")).to_be_enabled()
    expect(page.locator(".context .window")).to_be_visible()
    assert "from=2026-" in page.url and "to=2026-" in page.url
    zoomed = page.url
    page.get_by_role("button", name="Log", exact=True).click()
    page.get_by_role("button", name="Time axis").click()
    assert "log=1" in page.url and "x=time" in page.url
    again = watched.open(page.url)
    expect(again.get_by_role("button", name="Log", exact=True)).to_have_attribute("aria-pressed", "true")
    expect(again.get_by_role("button", name="Time axis")).to_have_attribute("aria-pressed", "true")
    table = again.locator("details", has_text="Table of the points shown")
    table.locator("summary").click()
    expect(table.locator("tbody tr").first).to_contain_text("2026-")
    shown = table.locator("tbody tr").count()
    assert 8 < shown < 16
    commits = watched.open(f"{zoomed}&table=1").locator("details", has_text="Table of the points shown")
    expect(commits.locator("tbody tr")).to_have_count(shown)
    again.get_by_role("button", name="Show all").click()
    expect(table.locator("tbody tr")).to_have_count(NIGHTS)


def test_two_points_are_compared_with_their_environments_and_sources(watched: Watched, site: str) -> None:
    page = watched.open(f"{site}#/case/read")
    chart = page.locator(".chart")
    chart.focus()
    chart.press("Home")
    chart.press("Enter")
    expect(page.locator(".picked")).to_contain_text("night-0")
    chart.press("End")
    chart.press("Enter")
    picked = page.locator(".picked")
    expect(picked).to_contain_text("From A to B")
    expect(picked).to_contain_text("packages.dask")
    expect(picked).to_contain_text("2026.9.0")
    expect(picked.locator(".code .new")).to_contain_text("assert read(2)")
    assert "a=" in page.url and "b=" in page.url
    picked.get_by_role("button", name="Let go").click()
    expect(picked).to_have_count(0)


def test_keys_move_pan_and_zoom(watched: Watched, site: str) -> None:
    page = watched.open(f"{site}#/case/{SLOW}")
    chart = page.locator(".chart")
    chart.focus()
    chart.press("End")
    expect(page.locator(".tip")).to_contain_text(f"night-{NIGHTS - 1}")
    chart.press("ArrowLeft")
    expect(page.locator(".tip")).to_contain_text(f"night-{NIGHTS - 2}")
    chart.press("+")
    expect(page.get_by_role("button", name="Show all")).to_be_enabled()
    chart.press("Shift+ArrowRight")
    chart.press("0")
    expect(page.get_by_role("button", name="Show all")).to_be_disabled()


def test_a_case_shows_changes_epochs_distribution_source_and_other_parameters(
    watched: Watched, site: str
) -> None:
    page = watched.open(f"{site}#/case/{SLOW}")
    expect(page.locator(".finding")).to_contain_text("worse")
    page.locator("summary", has_text="Distribution").click()
    expect(page.locator(".histogram rect").first).to_be_attached()
    expect(page.locator("details", has_text="Distribution").locator("tbody tr")).to_have_count(2)
    page.get_by_role("button", name="All parameters").click()
    expect(page.locator(".multiples figure")).to_have_count(2)
    expect(page.locator(".multiples")).to_contain_text("n=2")
    page = watched.open(f"{site}#/case/read")
    page.locator("summary", has_text="Source").click()
    expect(page.locator("pre.code")).to_contain_text("def test_read():")


def test_search_finds_names_metrics_and_tags(watched: Watched, site: str) -> None:
    page = watched.open(site)
    page.keyboard.press("/")
    page.keyboard.type("slow")
    page.keyboard.press("Enter")
    expect(page.locator("tbody tr")).to_have_count(2)
    page = watched.open(f"{site}#/cases?q=tag%3Aquick%20metric%3Awall_s")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody")).to_contain_text("steady")
    page.get_by_label("Last run").select_option("bad")
    expect(page.get_by_role("status")).to_have_text("0 cases")


def test_a_session_shows_its_cases_and_requirements(watched: Watched, site: str) -> None:
    page = watched.open(f"{site}#/sessions")
    expect(page.locator("tbody tr")).to_have_count(NIGHTS)
    page.get_by_role("link", name=f"night-{NIGHTS - 1}").click()
    expect(page.locator("tbody tr").first).to_contain_text("breaks")
    page.get_by_role("button", name="steady").click()
    record = page.locator(".record")
    expect(record.locator(".requirements")).to_contain_text("wall_s ≤ 9")
    expect(record.locator(".requirements")).to_contain_text("yes")
    assert "case=steady" in page.url
    expect(watched.open(page.url).locator(".requirements")).to_be_visible()


def test_branches_have_a_heat_map_and_a_scatter(watched: Watched, site: str) -> None:
    page = watched.open(f"{site}#/compare?a=r%3A{session(STEP - 5).revision}&b=b%3Amain&view=heat")
    expect(page.locator("table.heat tbody tr").first).to_be_visible()
    page.get_by_label("Show").select_option("scatter")
    page.get_by_label("Across").select_option("wall_s")
    page.get_by_label("Up", exact=True).select_option("wall_s")
    expect(page.locator(".scatter .dot").first).to_be_attached()


def test_what_is_shown_can_be_taken_along(watched: Watched, site: str) -> None:
    page = watched.open(f"{site}#/case/{SLOW}")
    taken = {}
    for name in ("CSV", "JSON", "PNG", "SVG"):
        with page.expect_download() as download:
            page.get_by_role("button", name=name, exact=True).click()
        taken[name] = Path(download.value.path()).read_bytes()
    rows = list(csv.DictReader(io.StringIO(taken["CSV"].decode())))
    assert len(rows) == NIGHTS and len(rows[0]["samples"].split()) == 3
    points = json.loads(taken["JSON"])["points"]
    assert [point["value"] for point in points] == [float(row["value"]) for row in rows]
    assert taken["PNG"].startswith(b"\x89PNG")
    assert b"<path" in taken["SVG"] and "▲ +5".encode() in taken["SVG"]


def test_light_dark_and_the_readers_choice(browser: Browser, site: str) -> None:
    context = browser.new_context(color_scheme="dark")
    found = watch(context)
    page = found.open(site)
    dark = page.evaluate("() => getComputedStyle(document.documentElement).backgroundColor")
    page.get_by_role("button", name="Use light colours").click()
    assert page.evaluate("() => getComputedStyle(document.documentElement).backgroundColor") != dark
    expect(found.open(site).locator("html")).to_have_attribute("data-theme", "light")
    context.close()


def test_a_phone_needs_no_sideways_scrolling(browser: Browser, site: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 780})
    found = watch(context)
    incident = found.open(site).locator(".line").first.get_attribute("data-incident")
    for page_name in (
        "",
        f"#/case/{SLOW}",
        f"#/case/{SLOW}?a={session(12).id[:10]}.0",
        f"#/case/{SLOW}?all=1",
        f"#/incident/{incident}",
        "#/cases",
        "#/sessions",
        "#/compare",
        f"#/session/{session(5).id}?case=steady",
    ):
        page = found.open(site + page_name)
        wide = page.evaluate(
            "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert wide <= 0, page_name
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nobody_is_kept_out(browser: Browser, site: str, axe: str, scheme: str) -> None:
    context = browser.new_context(color_scheme=scheme, bypass_csp=True)  # type: ignore[arg-type]
    found = watch(context)
    ids = [session(night).id for night in (NIGHTS - 1, 5)]
    incident = found.open(site).locator(".line").first.get_attribute("data-incident")
    for page_name in (
        "#/",
        f"#/incident/{incident}",
        f"#/case/{SLOW}?a={session(2).id[:10]}.0&b={session(35).id[:10]}.0",
        "#/cases",
        "#/sessions",
        f"#/session/{ids[0]}?case=steady",
        f"#/compare?a=s%3A{ids[1]}&b=s%3A{ids[0]}",
        f"#/compare?a=s%3A{ids[1]}&b=s%3A{ids[0]}&view=heat",
    ):
        page = found.open(site + page_name)
        assert serious(page, axe) == [], page_name
    context.close()


def test_an_empty_history_and_a_lost_address_say_what_to_do(watched: Watched, tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db"):
        pass
    build_site(tmp_path / "benchmark.db", tmp_path / "out")
    address = f"{(tmp_path / 'out').as_uri()}/index.html"
    expect(watched.open(address).locator("h1")).to_have_text("No results yet")
    page = watched.open(f"{address}#/case/never")
    expect(page.get_by_role("alert")).to_contain_text("could not be loaded")
    watched.complaints.clear()  # the browser says that the file is not there


def test_the_arms_of_an_experiment_stand_side_by_side(watched: Watched, tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        for trial in range(12):
            arm = ("main", "null", "slower")[trial % 3]
            value = (1.2 if arm == "slower" else 1.0) * (1 + WOBBLE[trial % len(WOBBLE)])
            info = session(trial, name=f"duel/trial-{trial}", kind="ab")
            case_of_arm = case("sort", variant=arm)
            failed = {"status": Status.FAILED, "metrics": {}} if trial == 11 else {}
            store.add(info, ENVIRONMENT, [record("sort", value, number=trial, case=case_of_arm, **failed)])
    build_site(tmp_path / "benchmark.db", tmp_path / "out")
    address = f"{(tmp_path / 'out').as_uri()}/index.html"
    page = watched.open(address)
    expect(page.locator(".tile", has_text="broken")).to_contain_text("0")  # a trial is no night
    page = watched.open(f"{address}#/compare")
    choose_side(page, "Baseline", "arm main duel")
    choose_side(page, "Candidate", "arm slower duel")
    expect(page.locator("tbody tr").first).to_contain_text("worse")
    page.get_by_label("Show").select_option("heat")
    expect(page.locator("table.heat thead")).to_contain_text("null")
    expect(page.locator("table.heat tbody tr")).to_have_count(1)
    expect(page.locator("table.heat tbody td[class*='worse-']:not(.worse-0)")).to_have_count(1)


CULPRIT = {
    "kind": "commit",
    "revision": "c" * 40,
    "subject": "Sort twice",
    "author": "Ann",
    "probability": 0.97,
}


def tried(index: int) -> dict[str, Any]:
    """A revision of a bisection, as its file has it; the last is the culprit."""
    revision = CULPRIT["revision"] if index == 2 else f"{index:040x}"
    values = [1.0 + index, 1.1 + index]
    told = {"index": index, "revision": revision, "title": f"Change {index}", "values": values}
    return {**told, "mean": values[0], "reason": "", "probability": 0.97 if index == 2 else 0.01}


def test_a_culprit_stands_first(watched: Watched, tmp_path: Path) -> None:
    history = make_history(tmp_path / "benchmark.db")
    with open_store(history) as store:
        (found,) = [one for one in store.findings() if one.verdict == "worse"]
        store.settle(found, "bisected", {**CULPRIT, "runs": 12, "bisection": str(tmp_path / "bisect-1")})
    (tmp_path / "bisect-1").mkdir()
    (tmp_path / "bisect-1" / "bisect.json").write_text(json.dumps({"tested": [*map(tried, range(3))]}))
    build_site(history, tmp_path / "out")
    address = f"{(tmp_path / 'out').as_uri()}/index.html"
    line = watched.open(address).locator(".line").first
    expect(line.locator(".culprit")).to_contain_text("Sort twice")
    expect(line).to_contain_text("bisected, 97 %")
    expect(line.locator(".owner")).to_have_text("Ann")
    page = watched.open(f"{address}#/incident/{found.incident}")
    card = page.locator(".culprit-card")
    expect(card).to_contain_text("Sort twice Ann")
    expect(card).to_contain_text("97 % sure after 12 runs of a bisection")
    expect(card.locator("tbody tr")).to_have_count(3)
    expect(card.locator("tr.chosen")).to_contain_text("Change 2")
    expect(page.locator("main")).not_to_contain_text("Suspect")
    expect(watched.open(f"{address}#/case/{SLOW}").locator(".finding").first).to_contain_text("new bisected")


def test_what_did_not_reproduce_is_no_open_regression(watched: Watched, tmp_path: Path) -> None:
    history = make_history(tmp_path / "benchmark.db")
    with open_store(history) as store:
        (found,) = [one for one in store.findings() if one.verdict == "worse"]
        store.settle(found, "not_reproduced")
    build_site(history, tmp_path / "out")
    address = f"{(tmp_path / 'out').as_uri()}/index.html"
    page = watched.open(address)
    expect(page.locator("[data-total=open]")).to_have_class("tile calm")
    page.get_by_role("tab", name="Closed").click()
    expect(page.locator(".line")).to_contain_text("not reproduced")
    assert "none" in (tmp_path / "out/badges/regressions.svg").read_text()
    assert "0 open regressions" in (tmp_path / "out/feed.xml").read_text()
