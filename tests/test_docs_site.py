"""The documentation's site builds strictly, hangs together, and takes nothing from elsewhere."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import yaml

REPOSITORY = Path(__file__).parents[1]
CONFIG = REPOSITORY / "mkdocs.yml"
# What a browser fetches by itself; a link is only followed by a reader.
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", config, "--site-dir", site],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=170,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("docs") / "site"
    done = build(CONFIG, built)
    assert done.returncode == 0, done.stderr
    return built


class Page(HTMLParser):
    """A built page: what it loads, where its links lead, and the names of its places."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.names: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.names |= {value for key in ("id", "name") if (value := given.get(key))}
        if tag == "a" and (target := given.get("href")) is not None:
            self.links.append(target)
        if (target := given.get(LOADED.get(tag, ""))) is not None:
            self.loaded.append(target)


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    # The page for what is not found links from the top, where it may be asked for from anywhere.
    return {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}


def test_every_page_is_on_the_site_and_in_the_navigation(site: Path) -> None:
    written = {path.relative_to(REPOSITORY / "docs").as_posix() for path in REPOSITORY.glob("docs/**/*.md")}
    assert set(files_of(read_config()["nav"])) == written, "mkdocs.yml: nav has to name every page"
    assert {path.relative_to(site).with_suffix(".md").as_posix() for path in site.glob("*.html")} >= written


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    foreign = [
        (path.name, target) for path, page in pages.items() for target in page.loaded if not local(target)
    ]
    assert not foreign
    styles = {path.name: path.read_text(encoding="utf-8") for path in site.rglob("*.css")}
    wanted = r"(?:url\(|@import)\s*[\"']?(?:https?:)?//"
    assert [name for name, style in styles.items() if re.search(wanted, style)] == []


def test_links_and_anchors_of_the_built_pages_lead_somewhere(pages: dict[Path, Page]) -> None:
    lost = [
        f"{path.name}: {link}"
        for path, page in pages.items()
        for link in filter(local, page.links)
        if not leads_somewhere(path, link, pages)
    ]
    assert not lost
    assert sum(len(page.links) for page in pages.values()) > 1000


def test_lists_and_tables_are_not_taken_for_text(pages: dict[Path, Page]) -> None:
    """GitHub sees a list without an empty line before it; here it would become part of the paragraph."""
    marks = re.compile(r"^(?:[-*] |\d\. |\|.*\|$)", re.MULTILINE)
    texts = {path.name: path.read_text(encoding="utf-8") for path in pages}
    outside_code = {name: re.sub(r"<pre.*?</pre>", "", text, flags=re.DOTALL) for name, text in texts.items()}
    assert {name: found[0] for name, text in outside_code.items() if (found := marks.search(text))} == {}


def test_a_page_that_leads_nowhere_is_refused(tmp_path: Path) -> None:
    wrong = ["nowhere.md", "index.md#nothing", "/absolute.md", "../src/nothing.py"]
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("".join(f"[there]({target})\n\n" for target in wrong))
    (tmp_path / "docs" / "lost.md").write_text("# In no list\n")
    (tmp_path / "docs" / "site.css").write_text("")
    config = tmp_path / "mkdocs.yml"
    paths = f"docs_dir: {tmp_path / 'docs'}\nhooks: [{REPOSITORY / 'tools' / 'docs_sources.py'}]\n"
    config.write_text(f"INHERIT: {CONFIG}\n{paths}nav: [index.md]\n")
    done = build(config, tmp_path / "site")
    assert done.returncode == 1
    assert [target for target in [*wrong, "lost.md"] if target not in done.stderr] == []


def read_config() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    return loaded


def files_of(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    for inner in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from files_of(inner)


def local(target: str) -> bool:
    parts = urlsplit(target)
    return not parts.scheme and not parts.netloc


def leads_somewhere(page: Path, link: str, pages: dict[Path, Page]) -> bool:
    parts = urlsplit(link)
    target = Path(os.path.normpath(page.parent / unquote(parts.path))) if parts.path else page
    if target.is_dir():
        target /= "index.html"
    if not parts.fragment or target not in pages:
        return target.is_file()
    return unquote(parts.fragment) in pages[target].names
