"""Sides that are found by typing, like environments paired, releases as columns, a search that offers, going back."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from dashboard_browser import Watched, choose_side, serious, watch
from dashboard_site import build_site, wobbling
from paceline.findings.detection import detect
from paceline.history import open_store
from paceline.history.places import CommitPlace, Tag, write_places
from paceline.model import Status
from stored_records import ENVIRONMENT, measured, record, session

NIGHTS = 24
TAGS = {7: "v1.0", 13: "v1.1", 19: "v2.0"}
CASES = [f"{name}[n={size}]" for name in ("sort", "join") for size in (1, 2, 3)]


def value_of(case: int, night: int) -> float:
    """From v1.1 on the first case takes half as long again; from v2.0 on the last is faster."""
    factor = (1.5 if case == 0 and night >= 12 else 1.0) * (0.6 if case == 5 and night >= 18 else 1.0)
    return wobbling(factor * (1 + case), night + case)


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A site of two machines by turns, with three releases."""
    directory = tmp_path_factory.mktemp("releases")
    with open_store(directory / "benchmark.db") as store:
        for night in range(NIGHTS):
            for number in (1, 2):
                machine = {"id": f"env-{number}", "class_id": f"class-{number}", "hostname": f"box-{number}"}
                told = session(2 * night + number, branch="main", revision=f"{night + 1:040x}")
                name = f"night-{night}-box-{number}"
                records = [
                    replace(
                        record(
                            key, number=night, metrics={"wall_s": measured(value_of(case, night) * number)}
                        ),
                        environment=machine["id"],
                        session=name,
                        **(
                            {"status": Status.FAILED, "metrics": {}}
                            if night == NIGHTS - 1 and case == 3
                            else {}
                        ),
                    )
                    for case, key in enumerate(CASES)
                ]
                store.add(replace(told, name=name), {**ENVIRONMENT, **machine}, records)
        with store.database.writing():
            write_places(store.database, dict(map(place_of, range(NIGHTS))))
        detect(store)
    build_site(directory / "benchmark.db", directory / "out")
    return f"{(directory / 'out').as_uri()}/index.html"


def place_of(night: int) -> tuple[str, CommitPlace]:
    time = session(2 * night).started_at
    tags = (Tag(TAGS[night], time),) if night in TAGS else ()
    place = CommitPlace(repository="demo", place=night, is_main=True, commit_time=time, tags=tags)
    return f"{night + 1:040x}", place


def offered(page: Page, side: str, typed: str) -> list[str]:
    """What a box offers for what is typed, each with its kind."""
    box = page.get_by_role("combobox", name=side)
    box.click()
    box.fill(typed)
    page.get_by_role("option").first.wait_for()
    found = [" ".join(text.split()) for text in page.get_by_role("option").all_inner_texts()]
    page.keyboard.press("Escape")
    return found


def test_a_side_is_a_tag_a_branch_a_commit_a_session_or_a_date(watched: Watched, releases: str) -> None:
    page = watched.open(f"{releases}#/compare")
    assert offered(page, "Baseline", "v1.")[0].startswith("tag v1.")
    assert any(text.startswith("branch main") for text in offered(page, "Baseline", "main"))
    assert offered(page, "Baseline", "00000b")[0].startswith("commit 00000000")
    assert offered(page, "Baseline", "night-3-box-2")[0].startswith("session night-3-box-2")
    assert offered(page, "Baseline", "2026-01-20")[0].startswith(
        "date 2026-01-20 the newest commit up to then"
    )
    choose_side(page, "Baseline", "v1.0")
    choose_side(page, "Candidate", "v1.1")
    expect(page.get_by_role("combobox", name="Baseline")).to_have_value("v1.0")
    assert "a=t%3Av1.0" in page.url and "b=t%3Av1.1" in page.url
    expect(page.locator("table.rows tbody tr")).to_have_count(1)
    expect(page.locator("table.rows tbody tr")).to_contain_text("sort[n=1]")
    expect(page.locator("table.rows tbody tr")).to_contain_text("worse")
    page.get_by_label("Exchange the sides").click()
    expect(page.locator("table.rows tbody tr")).to_contain_text("better")


def test_keys_alone_choose_a_side(watched: Watched, releases: str) -> None:
    page = watched.open(f"{releases}#/compare")
    box = page.get_by_role("combobox", name="Candidate")
    box.focus()
    page.keyboard.type("v2.0")
    expect(box).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowDown")
    active = box.get_attribute("aria-activedescendant")
    expect(page.locator(f"[id='{active}']")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(box).to_have_value("v2.0")
    page.keyboard.press("Tab")
    assert "b=t%3Av2.0" in page.url


def test_like_environments_are_paired_by_default(watched: Watched, releases: str) -> None:
    page = watched.open(f"{releases}#/compare")
    expect(page.get_by_role("combobox", name="Candidate")).to_have_value(f"night-{NIGHTS - 1}-box-2")
    expect(page.get_by_role("combobox", name="Baseline")).to_have_value(f"night-{NIGHTS - 2}-box-2")
    expect(page.locator("main")).to_contain_text("Both ran in the same environment")
    expect(page.locator("summary", has_text="1 case of A without numbers in B")).to_be_visible()
    choose_side(page, "Baseline", f"night-{NIGHTS - 2}-box-1")
    expect(page.locator("main")).to_contain_text("never ran on machines of the same kind")
    expect(page.locator(".diff")).to_contain_text("box-1")
    expect(page.locator(".tiles")).to_have_count(0)
    page.get_by_role("button", name="Compare anyway").click()
    expect(page.locator("table.rows tbody tr").first).to_be_visible()
    expect(page.locator(".verdicts")).not_to_contain_text("mean")


def test_releases_are_columns_with_a_summary(watched: Watched, releases: str) -> None:
    page = watched.open(f"{releases}#/")
    page.get_by_role("link", name="Releases").click()
    heads = page.locator(".releases thead th")
    expect(heads).to_have_text([re.compile(text) for text in ("Case", "^v2.0", "^v1.1", "^v1.0")])
    summary = page.locator(".releases .summary td")
    expect(summary.nth(1)).to_contain_text("▼ 1 of 6")
    expect(summary.nth(2)).to_contain_text("▲ 1 of 6")
    expect(summary.nth(2)).to_contain_text("×1.0")
    expect(summary.nth(3)).to_contain_text("the first one")
    first = page.locator(".releases tbody tr", has_text="sort[n=1]")
    expect(first.locator("td").nth(2)).to_contain_text("worse")
    page.get_by_label("Cases", exact=True).fill("join")
    expect(page.locator(".releases tbody tr")).to_have_count(4)
    page.locator(".releases thead a", has_text="v1.1").click()
    expect(page.get_by_role("combobox", name="Baseline")).to_have_value("v1.0")
    expect(page.get_by_role("combobox", name="Candidate")).to_have_value("v1.1")


def test_a_search_offers_cases_sessions_commits_and_tags(watched: Watched, releases: str) -> None:
    page = watched.open(releases)
    search = "Search cases, sessions, commits and tags"
    assert offered(page, search, "join")[0].startswith("case join[n=1]")
    assert offered(page, search, "v1.1")[0].startswith("tag v1.1")
    assert offered(page, search, "night-20")[0].startswith("session night-20-box")
    assert offered(page, search, "commit 00000c")[0].startswith("commit 000000000")
    page.keyboard.press("/")
    page.keyboard.type("sort n=2")
    page.get_by_role("option").first.wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("sort[n=2]")
    expect(page.locator("main")).to_be_focused()


def test_going_back_undoes_what_was_chosen(watched: Watched, releases: str) -> None:
    page = watched.open(f"{releases}#/compare?a=t%3Av1.0&b=t%3Av1.1")
    page.get_by_role("tab", name="All").click()
    expect(page.locator("table.rows tbody tr")).to_have_count(6)
    page.get_by_label("Filter").fill("join")
    expect(page.locator("table.rows tbody tr")).to_have_count(3)
    page.go_back()  # what was typed is no step of its own
    expect(page.locator("table.rows tbody tr")).to_have_count(1)
    page.go_back()
    expect(page.get_by_role("tab")).to_have_count(0)


def test_lists_show_value_and_trend(watched: Watched, releases: str) -> None:
    page = watched.open(f"{releases}#/cases")
    row = page.locator("table.rows tbody tr", has_text="sort[n=1]")
    expect(row.locator("[data-name='Value']")).to_have_text(re.compile(r"^3\.0\d s$"))
    expect(row.locator(".spark polyline")).to_be_attached()
    expect(row.locator("[data-name='Noise']")).to_have_text(re.compile(r"^±0\.\d+ %$"))
    page = watched.open(f"{releases}#/sessions?q=box-1%20night-2")
    expect(page.locator("table.rows tbody tr").first).to_contain_text("box-1")
    page.locator("table.rows tbody a").first.click()
    expect(page.locator("table.rows .spark polyline").first).to_be_attached()


def test_on_a_phone_the_effect_stands_first_and_nothing_overflows(browser: Browser, releases: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844})
    found = watch(context)
    for place in ("#/compare?a=t%3Av1.0&b=t%3Av1.1", "#/releases", "#/cases", "#/sessions"):
        page = found.open(f"{releases}{place}")
        page.locator("table.rows tbody tr").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, place
        boxes = "[...document.querySelectorAll('.table-box')].map(box => box.scrollWidth - box.clientWidth)"
        assert max(page.evaluate(boxes)) <= 0, place
    page = found.open(f"{releases}#/compare?a=t%3Av1.0&b=t%3Av1.1")
    effect, name = (
        page.locator(f"table.rows tbody td.{part}").first.bounding_box() for part in ("lead", "main")
    )
    assert effect and name and effect["y"] < name["y"]
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_boxes_that_offer_and_releases_are_for_everybody(
    browser: Browser, releases: str, axe: str, scheme: str
) -> None:
    context = browser.new_context(color_scheme=scheme, bypass_csp=True)  # type: ignore[arg-type]
    found = watch(context)
    assert serious(found.open(f"{releases}#/releases"), axe) == []
    page = found.open(f"{releases}#/compare?a=t%3Av1.0&b=t%3Av1.1")
    page.get_by_role("combobox", name="Baseline").click()
    page.get_by_role("option").first.wait_for()
    assert serious(page, axe) == []
    context.close()


def test_without_tags_it_says_where_they_come_from(watched: Watched, site: str) -> None:
    page: Page = watched.open(f"{site}#/releases")
    expect(page.locator("main")).to_contain_text("No tag is known")
    page = watched.open(site)
    expect(page.get_by_role("link", name="Releases")).to_have_count(0)


def test_a_benchmark_of_another_version_is_not_compared(watched: Watched, tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        for night, version in enumerate(("1", "2")):
            one = record("sort", 1.0 + night, number=night)
            store.add(session(night), ENVIRONMENT, [replace(one, case=replace(one.case, version=version))])
    build_site(tmp_path / "benchmark.db", tmp_path / "out")
    page = watched.open(f"{(tmp_path / 'out').as_uri()}/index.html#/compare")
    expect(page.locator("main")).to_contain_text("no case and metric in common")
    expect(page.locator("summary", has_text="1 case of A without numbers in B")).to_be_visible()
