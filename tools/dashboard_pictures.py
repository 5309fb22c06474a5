"""Takes the pictures of the dashboard that are in docs/, from the demo's history, in light and dark.

    python tools/dashboard_pictures.py docs/images/dashboard

Needs Chromium (`apt-get install chromium`) and playwright; makes the demo's history by `tools/demo_history.py`.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Page, sync_playwright

TOOLS = Path(__file__).resolve().parent
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
CASE = "join%5Bengine%3Ddask%2Csize%3Dlarge%5D"
SHOTS = {
    "overview": "#/",
    "case": f"#/case/{CASE}?m=wall_s&a=70.0",
    "case-compare": "#/case/sort%5Bn%3D10000000%5D?m=wall_s&a=60.0&b=118.0",
    "session": "#/session/{last}?case=alm_windows",
    "compare": "#/compare?a=s%3A{older}&b=s%3A{last}",
    "compare-evals": "#/compare?a={dense}&b={streaming}&pair=invented-8b%2Flongbench_triviaqa",
    "compare-quality": "#/compare?a={dense}&b={streaming}&view=quality",
    "compare-heat": "#/compare?a=r%3A{old_revision}&b=b%3Amain&view=heat",
    "releases": "#/releases",
    "incident": "#/incident/{incident}",
    "cases": "#/cases?q=join",
    "sessions": "#/sessions",
}
PHONE = ("overview", "case", "compare")


def make_site(directory: Path) -> Path:
    """The demo's history and its site."""
    subprocess.run([sys.executable, str(TOOLS / "demo_history.py"), str(directory / "demo")], check=True)
    demo = directory / "demo"
    words = ["dashboard", "build", str(directory / "site"), "--db", str(demo / "benchmark.db")]
    words += [
        "--results-dir",
        str(demo / "results"),
        "--repo",
        str(demo / "repo"),
        "--title",
        "Nightly benchmarks (invented figures)",
    ]
    subprocess.run([sys.executable, "-m", "paceline", *words], check=True)
    return directory / "site"


def addresses(page: Page, site: Path) -> dict[str, str]:
    """Each picture's address, with the demo's own sessions put in."""
    page.goto(f"{site.as_uri()}/index.html#/sessions")
    page.wait_for_selector("tbody tr")
    ids = page.eval_on_selector_all("tbody a", "all => all.map(a => a.hash.split('/')[2].split('?')[0])")
    revisions = page.eval_on_selector_all("tbody code", "all => all.map(code => code.title)")
    evals = page.locator("tbody a", has_text="execution_").get_attribute("href") or ""
    page.goto(f"{site.as_uri()}/index.html#/")
    incident = page.locator(".line").first.get_attribute("data-incident")
    sides = {name: attention_side(evals.rpartition("/")[2], name) for name in ("dense", "streaming")}
    filled = {"incident": incident, "last": ids[0], "older": ids[40], "old_revision": revisions[50], **sides}
    return {name: f"{site.as_uri()}/index.html{shot.format(**filled)}" for name, shot in SHOTS.items()}


def attention_side(session: str, name: str) -> str:
    """An attention of an execution as the address of a comparison has it."""
    return quote(f"e:{json.dumps([session, name], separators=(',', ':'))}", safe="")


def take(page: Page, address: str, target: Path) -> None:
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("html[data-drawn]")
    page.locator(".loading").first.wait_for(state="detached")
    page.wait_for_timeout(400)
    page.screenshot(path=target)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--site", type=Path, help="a site of the demo's history that is there already")
    parser.add_argument("--only", help="one picture by its name")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="paceline-pictures-") as directory,
        sync_playwright() as playwright,
    ):
        site = (args.site or make_site(Path(directory))).resolve()
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for theme in ("light", "dark"):
            wide = browser.new_page(viewport={"width": 1180, "height": 860}, color_scheme=theme)
            found = addresses(wide, site)
            for name, address in found.items():
                if args.only in (None, name):
                    take(wide, address, args.out / f"{name}-{theme}.png")
            narrow = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme=theme)
            for name in PHONE:
                if args.only in (None, f"{name}-phone"):
                    take(narrow, found[name], args.out / f"{name}-phone-{theme}.png")
        browser.close()


if __name__ == "__main__":
    main()
