"""Memory, CPU and GPUs over a run: drawn, and in a table; every GPU stays, however many readings there are."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import expect

from dashboard_browser import Watched
from dashboard_site import build_site, data, numbers
from paceline.dashboard.run_files import CURVE_POINTS
from paceline.history import open_store
from paceline.model import Plan
from paceline.record.directory import SessionDir
from paceline.run.collectors import COLUMNS
from stored_records import ENVIRONMENT, record, session

BEGIN = datetime(2026, 11, 1, tzinfo=UTC)


def gpu_rows(moments: int) -> str:
    """Two GPUs, read once a second; the second does not tell its power."""
    lines = [",".join(COLUMNS)]
    for second in range(moments):
        time = (BEGIN + timedelta(seconds=second)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        lines.append(f"{time},0,{50 + second % 7},{1 << 30},{1 << 34},60,200.5")
        lines.append(f"{time},1,{20 + second % 5},{2 << 30},{1 << 34},55,")
    return "\n".join(lines) + "\n"


def make_site(directory: Path, moments: int) -> Path:
    path = directory / "night"
    info = session(1, directory=str(path))
    one = record("train", 2.0, number=1)
    with open_store(directory / "benchmark.db") as store:
        store.add(info, ENVIRONMENT, [one])
    entry = SessionDir.create(Plan(session="night", directory=path)).prepare(one.case)
    (entry / "resources.csv").write_text(
        "t_s,memory_bytes,cpu_s,processes\n0,1048576,0,1\n1,2097152,1.5,2\n3,1048576,2.5,1\n"
    )
    (entry / "gpustats.csv").write_text(gpu_rows(moments))
    build_site(directory / "benchmark.db", directory / "out")
    return directory / "out"


@pytest.mark.parametrize("moments", [3, CURVE_POINTS, 3 * CURVE_POINTS + 1])
def test_readings_of_all_gpus_are_kept(tmp_path: Path, moments: int) -> None:
    site = make_site(tmp_path, moments)
    gpus = data(site, f"files/{session(1).id}/0")["gpus"]
    devices = numbers(gpus["gpu_id"], 0)
    assert devices.count(0) == devices.count(1) == len(devices) / 2
    assert min(6, CURVE_POINTS // 2) <= len(devices) <= CURVE_POINTS + 2
    assert numbers(gpus["timestamp_utc"], 0)[0] == BEGIN.timestamp() * 1000


def test_curves_have_a_table_behind_them(watched: Watched, tmp_path: Path) -> None:
    site = make_site(tmp_path, 40)
    page = watched.open(f"{site.as_uri()}/index.html#/session/{session(1).id}?case=train")
    figures = page.locator(".curves figure")
    expect(figures).to_have_count(
        7
    )  # memory, cores, processes; use, memory, temperature and power of the GPUs
    expect(figures.locator(".drawing").last).to_be_visible()
    page.locator("summary", has_text="Table of memory and CPU").click()
    table = page.get_by_role("table", name="Memory and CPU over time")
    expect(table.locator("tbody tr")).to_have_count(3)
    expect(table.locator("tbody tr").nth(1)).to_contain_text("2 MiB")
    expect(table.locator("tbody tr").nth(1)).to_contain_text("1.5")  # cores: 1.5 s of CPU in one second
    page.locator("summary", has_text="Table of GPUs").click()
    table = page.get_by_role("table", name="GPUs over time")
    expect(table.locator("tbody tr").first).to_contain_text("201 W")
    with page.expect_download() as download:
        page.locator("details", has=table).last.get_by_role("button", name="CSV").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert len(lines) == 1 + 80 and lines[0].startswith("t_s,gpu,utilization_gpu_pct")
    page.get_by_role("button", name="Show more of 80 rows").click()
    expect(table.locator("tbody tr")).to_have_count(80)
    expect(watched.open(page.url).get_by_role("table", name="GPUs").locator("tbody tr")).to_have_count(80)


def test_all_curves_of_a_run_show_the_same_stretch(watched: Watched, tmp_path: Path) -> None:
    site = make_site(tmp_path, 40)
    page = watched.open(f"{site.as_uri()}/index.html#/session/{session(1).id}?case=train")
    page.locator(".curves .chart").nth(3).press("+")
    expect(page.get_by_role("button", name="Show all")).to_have_count(2)  # of memory and CPU, of the GPUs
    assert "from=" in page.url and "to=" in page.url
    again = watched.open(page.url)
    again.get_by_role("button", name="Show all").first.click()
    expect(again.get_by_role("button", name="Show all")).to_have_count(0)
