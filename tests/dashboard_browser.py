"""A browser page that watches what it loads and complains about, and the accessibility check."""

import shutil
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import BrowserContext, Page

FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PATIENCE_MS = 60_000
"""A busy machine is slow, and no reason to fail."""


@dataclass
class Watched:
    """A page, what it complained about and what it asked for."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def open(self, address: str) -> Page:
        self.page.goto("about:blank")
        self.page.goto(address)
        self.page.wait_for_selector("html[data-drawn]")
        self.page.locator(".loading").first.wait_for(state="detached")
        return self.page


def watch(context: BrowserContext) -> Watched:
    context.set_default_timeout(PATIENCE_MS)
    watched = Watched(context.new_page())
    page = watched.page
    page.on("console", lambda message: message.type == "error" and watched.complaints.append(message.text))
    page.on("pageerror", lambda error: watched.complaints.append(str(error)))
    page.on(
        "dialog", lambda dialog: (watched.complaints.append(f"dialog: {dialog.message}"), dialog.dismiss())
    )
    page.on("request", lambda request: watched.requests.append(request.url))
    return watched


def choose_side(page: Page, side: str, words: str) -> None:
    """Choose one of the sides of a comparison, by words that only it has."""
    box = page.get_by_role("combobox", name=side)
    box.click()
    box.fill(words)
    page.get_by_role("option").first.click()


def serious(page: Page, axe: str) -> list[Any]:
    """What an accessibility check finds that would keep somebody out."""
    page.evaluate(axe)
    found = page.evaluate("() => axe.run(document)")
    assert found["passes"], "the check looked at nothing"
    return [
        (one["id"], [node["target"] for node in one["nodes"]][:4], one["nodes"][0]["failureSummary"])
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]
