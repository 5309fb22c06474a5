"""A site in Chromium: what its pages say, how tall, fast and heavy they are, and whom they keep out."""

import gzip
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    "--disable-background-networking",
]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SCREEN, PHONE = {"width": 1400, "height": 900}, {"width": 390, "height": 844}
PATIENCE_MS = 120_000
_TOTALS = """() => Object.fromEntries([...document.querySelectorAll('.tile')].flatMap(tile => {
  const name = tile.dataset.total ?? [['open regression', 'open'], ['broken case', 'broken'], ['improvement', 'better']]
    .find(([words]) => tile.innerText.includes(words))?.[1];
  const number = /[\\d,]+/.exec(tile.querySelector('strong').innerText)?.[0].replaceAll(',', '');
  return name ? [[name, Number(number)]] : [];
}))"""
# Beside each effect a small chart, and whether its values move there as the effect says: on a page up is less. Of a
# step the values next to it count, of a drift its beginning and its end.
_SPARKS = """() => [...document.querySelectorAll('svg.spark')].flatMap(svg => {
  const line = svg.closest('li, .finding, .card, tr'), told = line?.querySelector('.effect');
  const since = svg.querySelector('.since'), text = told?.innerText.replace('−', '-') ?? '';
  const number = /([+-])[\\d.,]+ %|×([\\d.]+)/.exec(text);
  if (!number) return [];
  if (!since) return [{ effect: text, agrees: false }];
  const up = number[1] === '+' || Number(number[2]) > 1;
  const points = svg.querySelector('polyline').getAttribute('points').split(' ').map(one => one.split(',').map(Number));
  const cut = Number(since.getAttribute('x')), isDrift = line.dataset.change === 'drift';
  const middle = several => several.map(([, y]) => y).sort((a, b) => a - b)[several.length >> 1];
  const before = points.filter(([x]) => x < cut).slice(-5), after = points.filter(([x]) => x >= cut);
  if (!before.length || !after.length) return [];
  const agrees = middle(isDrift ? after.slice(-5) : after.slice(0, 5)) < middle(before) === up;
  return [{ effect: text, agrees }];
})"""


@dataclass
class Looked:
    """A browser's page that keeps what went wrong."""

    page: Any
    address: str
    complaints: list[str] = field(default_factory=list)

    def open(self, place: str = "#/") -> Any:
        self.page.goto("about:blank")
        self.page.goto(f"{self.address}{place}")
        self.page.wait_for_selector("html[data-drawn]")
        self.page.locator(".loading").first.wait_for(state="detached")
        return self.page

    def totals(self) -> dict[str, int]:
        """The numbers of the tiles of the first page."""
        return dict(self.open().evaluate(_TOTALS))

    def sparks(self, shows: tuple[str, ...]) -> tuple[int, list[str]]:
        """How many small charts stand beside an effect, and those that move the other way."""
        found = [one for show in shows for one in self.open(f"#/?show={show}&rows=200").evaluate(_SPARKS)]
        return len(found), [one["effect"] for one in found if not one["agrees"]]

    def height(self, place: str = "#/") -> float:
        """How many screens a page takes."""
        tall = self.open(place).evaluate("document.documentElement.scrollHeight / innerHeight")
        return float(tall)

    def overflow(self, place: str) -> int:
        """By how many dots a page is wider than the screen."""
        return int(self.open(place).evaluate("document.documentElement.scrollWidth - innerWidth"))

    def first_content_ms(self, place: str) -> float:
        """How long it took from the address to something to read."""
        page = self.open(place)
        find = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? performance.now()"
        return float(page.evaluate(find))

    def violations(self, place: str, axe: str) -> list[str]:
        page = self.open(place)
        page.evaluate(axe)
        found = page.evaluate("() => axe.run(document, { preload: false })")
        return [
            f"{place}: {one['id']} ({one['impact']}): {one['nodes'][0]['target']}"
            for one in found["violations"]
        ]


@contextmanager
def browsing(site: Path, axe_themes: tuple[str, ...] = ("light", "dark")) -> Iterator[dict[str, Looked]]:
    """Pages of a wide screen in each theme, and of a phone."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        found: dict[str, Looked] = {}
        for name, size, theme in (
            *((theme, SCREEN, theme) for theme in axe_themes),
            ("phone", PHONE, "light"),
        ):
            context = browser.new_context(viewport=size, color_scheme=theme)
            context.set_default_timeout(PATIENCE_MS)
            looked = Looked(context.new_page(), f"{site.resolve().as_uri()}/index.html")
            looked.page.on("pageerror", lambda error, of=looked: of.complaints.append(str(error)))
            looked.page.on(
                "console",
                lambda message, of=looked: message.type == "error" and of.complaints.append(message.text),
            )
            found[name] = looked
        yield found
        browser.close()


def packed_kb(*paths: Path) -> float:
    """The size of files as a host sends them."""
    return sum(len(gzip.compress(path.read_bytes(), 9)) for path in paths) / 1000


def read_data(site: Path, name: str) -> Any:
    """What a data file of a site hands over."""
    text = (site / "data" / f"{name}.js").read_text()
    found = re.search(r"\.push\(\['[^']*','(.*)'\]\)\n?$", text, re.DOTALL)
    assert found, name
    return json.loads(re.sub(r"\\([\\'])", r"\1", found[1]))
