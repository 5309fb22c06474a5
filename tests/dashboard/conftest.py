"""A browser for all tests of the dashboard, and a site on disk."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from dashboard_browser import CHROMIUM, FLAGS, PATIENCE_MS, Watched, watch
from dashboard_site import build_site, make_history


@pytest.fixture(autouse=True)
def _patience() -> None:
    expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium here: 'apt-get install chromium' brings one")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def watched(browser: Browser) -> Iterator[Watched]:
    """A page that must not complain, nor load anything from elsewhere."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    found = watch(context)
    yield found
    context.close()
    assert found.complaints == []
    outside = [
        url
        for url in found.requests
        if not url.startswith(("file:", "data:", "blob:", "about:", "http://localhost:"))
    ]
    assert outside == []


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a site on disk."""
    directory = tmp_path_factory.mktemp("site")
    build_site(make_history(directory / "benchmark.db"), directory / "out", title="Nightly")
    return f"{(directory / 'out').as_uri()}/index.html"


@pytest.fixture(scope="session")
def axe() -> str:
    return (Path(__file__).parent / "axe.min.js").read_text()
