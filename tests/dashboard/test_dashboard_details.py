"""What is opened is in the address, what is shown can be taken along, paper is white, and a first run reads well."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote
from xml.etree import ElementTree

from playwright.sync_api import Browser, Page, expect

from dashboard_browser import Watched, watch
from dashboard_site import NIGHTS, build_site, make_history
from paceline.history import open_store
from paceline.model import Plan
from paceline.record.directory import SessionDir
from stored_records import ENVIRONMENT, measured, record, session

SLOW = quote("slow[n=1]", safe="")


def taken(page: Page, name: str) -> str:
    with page.expect_download() as download:
        page.get_by_role("button", name=name, exact=True).first.click()
    return Path(download.value.path()).read_text()


def test_what_is_opened_is_in_the_address(watched: Watched, site: str) -> None:
    page = watched.open(f"{site}#/case/read")
    for name in ("Distribution", "Table of the points shown", "Source"):
        page.locator("summary", has_text=name).click()
    expect(page.locator("pre.code")).to_be_visible()
    for word in ("spread=1", "table=1", "source=1"):
        assert word in page.url
    again = watched.open(page.url)
    expect(again.locator(".histogram")).to_be_visible()
    expect(again.locator("pre.code")).to_contain_text("def test_read")
    again.locator("summary", has_text="Distribution").click()
    expect(again.locator(".histogram")).to_have_count(0)
    assert "spread" not in again.url


def test_lists_and_drawings_can_be_taken_along(watched: Watched, site: str) -> None:
    page = watched.open(f"{site}#/cases?q=slow")
    assert [row["case"] for row in json.loads(taken(page, "JSON"))] == ["slow[n=1]", "slow[n=2]"]
    page = watched.open(f"{site}#/sessions")
    rows = list(csv.DictReader(taken(page, "CSV").splitlines()))
    assert len(rows) == NIGHTS and rows[0]["name"] == f"night-{NIGHTS - 1}"
    page = watched.open(f"{site}#/case/{SLOW}?spread=1")
    histogram = page.locator("details", has_text="Distribution")
    with page.expect_download() as download:
        histogram.get_by_role("button", name="SVG").click()
    drawing = ElementTree.fromstring(Path(download.value.path()).read_text())
    bars = drawing.findall("{http://www.w3.org/2000/svg}rect")
    assert len(bars) > 10 and all(bar.get("fill", "").startswith("rgb") for bar in bars[1:])


def test_phases_add_up_to_the_total(watched: Watched, tmp_path: Path) -> None:
    """The total is not one more of them; what a pool adds comes on top of it."""
    timings_s = {"run": 6.0, "total": 10.0, "cluster_start": 1.0, "cluster_stop": 1.0, "placement": 2.0}
    stored = replace(record("phased", number=0), timings_s=timings_s)
    with open_store(tmp_path / "benchmark.db") as store:
        store.add(session(0), ENVIRONMENT, [stored])
    build_site(tmp_path / "benchmark.db", tmp_path / "out")
    page = watched.open(f"{(tmp_path / 'out').as_uri()}/index.html#/session/{session(0).id}")
    page.locator("button.linkish").click()
    rows = page.locator("details", has_text="Phases").locator(".bars > div")
    shown = {" ".join(row.split()[:-4]): row.split()[-2] for row in rows.all_inner_texts()}
    shares = {"run": "50", "cluster_start": "8.3", "cluster_stop": "8.3", "placement": "17"}
    assert shown == {**shares, "the rest": "17"}


def test_of_two_chosen_sessions_the_older_is_the_baseline(watched: Watched, site: str) -> None:
    page = watched.open(f"{site}#/sessions")
    for night in (NIGHTS - 12, NIGHTS - 1):
        page.get_by_label(f"Choose night-{night} for a comparison").check()
    page.get_by_role("button", name="Compare the two chosen").click()
    expect(page.get_by_role("combobox", name="Baseline")).to_have_value(f"night-{NIGHTS - 12}")
    expect(page.get_by_role("combobox", name="Candidate")).to_have_value(f"night-{NIGHTS - 1}")


def test_a_chart_of_machines_tells_their_spread_apart(watched: Watched, tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        for night in range(8):
            host = f"host-{night % 2}"
            told = {**ENVIRONMENT, "id": host, "class_id": host, "hostname": host}
            store.add(session(night), told, [record("sort", 1.0 + night % 2, number=night, environment=host)])
    build_site(tmp_path / "benchmark.db", tmp_path / "out")
    page = watched.open(f"{(tmp_path / 'out').as_uri()}/index.html#/case/sort?spread=1")
    rows = page.locator("details", has_text="Distribution").locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("host-1")  # that with the newest point
    expect(rows.nth(1)).to_contain_text("host-0")


def test_paper_is_white(browser: Browser, site: str) -> None:
    context = browser.new_context(color_scheme="dark")
    page = watch(context).open(f"{site}#/case/{SLOW}")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.emulate_media(media="print", color_scheme="dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    expect(page.locator("nav")).to_be_hidden()
    page.emulate_media(media="screen", color_scheme="dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    context.close()


def test_a_search_of_the_output_has_an_address(watched: Watched, tmp_path: Path) -> None:
    one = record("sort", 1.0, number=1, artifacts=("flame.svg",))
    with open_store(tmp_path / "benchmark.db") as store:
        store.add(session(1, directory=str(tmp_path / "night")), ENVIRONMENT, [one])
        store.add(session(2), ENVIRONMENT, [record("sort", 1.0, number=2, artifacts=("flame.svg",))])
    entry = SessionDir.create(Plan(session="night", directory=tmp_path / "night")).prepare(one.case)
    (entry / "logs" / "stdouterr.log").write_text("begin\nround 1\nround 2\nend\n")
    build_site(tmp_path / "benchmark.db", tmp_path / "out")
    address = f"{(tmp_path / 'out').as_uri()}/index.html#/session"
    page = watched.open(f"{address}/{session(1).id}?case=sort")
    page.get_by_label("Search the output").fill("round")
    expect(page.locator("pre.log span")).to_have_count(2)
    again = watched.open(page.url)
    expect(again.get_by_label("Search the output")).to_have_value("round")
    expect(again.locator("pre.log span")).to_have_count(2)
    page = watched.open(f"{address}/{session(2).id}?case=sort")
    expect(page.locator("summary", has_text="1 artifact")).to_be_visible()


def test_a_first_run_has_nothing_to_be_held_against(watched: Watched, tmp_path: Path) -> None:
    make_history(tmp_path / "benchmark.db", nights=1)
    build_site(tmp_path / "benchmark.db", tmp_path / "out")
    address = f"{(tmp_path / 'out').as_uri()}/index.html"
    page = watched.open(address)
    expect(page.locator("main")).to_contain_text("This is the first session")
    expect(page.get_by_role("table", name="The cases of the last session")).not_to_contain_text("Last runs")
    page = watched.open(f"{address}#/compare")
    expect(page.locator("main")).to_contain_text("There is one session so far")


def test_numbers_beside_an_axis_differ(watched: Watched, tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        for night, value in enumerate((12.0001, 12.0002, 12.0003)):
            metrics = {"wall_s": measured(value)}
            store.add(session(night), ENVIRONMENT, [record("sort", value, number=night, metrics=metrics)])
    build_site(tmp_path / "benchmark.db", tmp_path / "out")
    page = watched.open(f"{(tmp_path / 'out').as_uri()}/index.html#/case/sort")
    expect(page.locator(".chart .drawing")).to_be_visible()
    texts = [
        element.text
        for element in ElementTree.fromstring(taken(page, "SVG")).iter("{http://www.w3.org/2000/svg}text")
    ]
    ticks = [text for text in texts if text and text.endswith(" s")]
    assert len(ticks) == len(set(ticks)) >= 3
