"""Every chart can be taken along as PNG and as SVG, and what is in its names stays text there, too."""

import struct
from pathlib import Path
from xml.etree import ElementTree

from playwright.sync_api import Locator, Page

from dashboard_browser import Watched
from dashboard_site import STEP, build_site
from paceline.history import open_store
from stored_records import ENVIRONMENT, measured, record, session

SVG = "{http://www.w3.org/2000/svg}"
TRICK = "</text><script>window.pwned=1</script>&\"'"


def taken(page: Page, button: Locator) -> bytes:
    with page.expect_download() as download:
        button.click()
    return Path(download.value.path()).read_bytes()


def both(page: Page, name: str) -> tuple[tuple[int, int], ElementTree.Element]:
    """The size of the picture in dots, and the drawing."""
    picture = taken(page, page.get_by_role("button", name=f"Download {name} as PNG", exact=True))
    assert picture.startswith(b"\x89PNG\r\n\x1a\n") and len(picture) > 1000
    wide, tall = struct.unpack(">II", picture[16:24])
    drawing = taken(page, page.get_by_role("button", name=f"Download {name} as SVG", exact=True))
    return (wide, tall), ElementTree.fromstring(drawing)


def is_drawn(page: Page, dots: tuple[int, int], drawing: ElementTree.Element) -> None:
    """The picture has the drawing's shape."""
    _, _, wide, tall = map(float, drawing.attrib["viewBox"].split())
    assert abs(dots[0] / dots[1] - wide / tall) < 0.02


def test_distribution_scatter_and_heat_map_are_pictures(watched: Watched, site: str) -> None:
    page = watched.open(f"{site}#/case/slow%5Bn%3D1%5D?spread=1")
    dots, drawing = both(page, "slow[n=1] wall_s distribution")
    is_drawn(page, dots, drawing)
    sides = f"a=r%3A{session(STEP - 5).revision}&b=b%3Amain"
    page = watched.open(f"{site}#/compare?{sides}&view=scatter&sx=wall_s&sy=wall_s")
    dots, drawing = both(page, "wall_s against wall_s")
    is_drawn(page, dots, drawing)
    assert len(drawing.findall(f".//{SVG}circle")) == 5
    page = watched.open(f"{site}#/compare?{sides}&view=heat")
    dots, drawing = both(page, "heat map")
    is_drawn(page, dots, drawing)
    texts = [element.text for element in drawing.iter(f"{SVG}text")]
    shown = page.locator("table.heat tbody")
    assert all(text in texts for text in shown.locator("th").all_inner_texts())
    assert all(text in texts for text in shown.locator("td:not(:empty)").all_inner_texts())
    fills = {element.attrib["fill"] for element in drawing.iter(f"{SVG}rect")}
    assert {"#ffffff"} < fills  # paper, what may be chance on it, and what is worse
    assert min(int(fill[at : at + 2], 16) for fill in fills for at in (1, 3, 5)) > 0x80  # text is read on all


def test_stages_and_names_that_try_are_pictures_too(watched: Watched, tmp_path: Path) -> None:
    metrics = {
        f"task_{TRICK}_process_time_sum": measured(3.0),
        "task_read_process_time_sum": measured(1.0),
        "wall_s": measured(4.0),
    }
    with open_store(tmp_path / "benchmark.db") as store:
        for night in range(2):
            store.add(session(night), ENVIRONMENT, [record(TRICK, number=night, metrics=metrics)])
    build_site(tmp_path / "benchmark.db", tmp_path / "out")
    address = f"{(tmp_path / 'out').as_uri()}/index.html"
    page = watched.open(f"{address}#/session/{session(1).id}")
    page.locator("button.linkish").click()
    _, drawing = both(page, "Stages of the pipeline")
    assert TRICK in [element.text for element in drawing.iter(f"{SVG}text")]
    page = watched.open(f"{address}#/compare?view=heat&m=wall_s")
    _, drawing = both(page, "heat map")
    assert TRICK in [element.text for element in drawing.iter(f"{SVG}text")]
    assert not list(drawing.iter(f"{SVG}script"))
    assert page.evaluate("() => typeof window.pwned") == "undefined"
