"""Five things that people come for, done in the browser: how many clicks, and how long the pages take.

The seconds are those of the pages; reading and deciding are not in them.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from look_parts.pages import Looked


class Task(NamedTuple):
    """What was asked, what it took, and what the page answered."""

    question: str
    clicks: int
    keys: str
    seconds: float
    answer: str


class Hand:
    """Counts what it does."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.clicks = 0

    def click(self, selector: str, **words: Any) -> None:
        self.page.locator(selector, **words).first.click()
        self.clicks += 1

    def text(self, selector: str) -> str:
        found = self.page.locator(selector).first
        found.wait_for()
        return " ".join(found.inner_text().split())


def worse_lately(hand: Hand, since: str) -> str:
    hand.page.get_by_label("Changes of").select_option(since)
    hand.clicks += 1
    if not hand.page.locator(".line").count():
        return hand.text(".quiet")
    return f"{hand.text('.line .line-size')}: {hand.text('.line .line-cause')}"


def is_it_noisy(hand: Hand, name: str) -> str:
    hand.page.keyboard.press("/")
    hand.page.keyboard.type(name[:-1])
    hand.page.get_by_role("option").first.wait_for()
    hand.page.keyboard.press("ArrowDown")
    hand.page.keyboard.press("Enter")
    return hand.text(".noise")


def compare_releases(hand: Hand) -> str:
    hand.click("nav a", has_text="Releases")
    hand.click(".releases thead a")
    return hand.text(".verdicts")


def log_of_the_failed(hand: Hand) -> str:
    hand.click(".groups summary")
    hand.click(".groups tbody a")
    return hand.text(".record")[:80]


def send_this_view(hand: Hand) -> str:
    hand.click(".tabs button", has_text="In series that ended")
    hand.click(".line-link")
    hand.page.locator(".chart").first.wait_for()
    before = hand.page.locator(".chart").first.inner_html()
    hand.click("button.copy", has_text="Copy link to this view")
    address = hand.page.evaluate("location.href")
    hand.page.goto("about:blank")
    hand.page.goto(address)
    hand.page.locator(".chart .path").first.wait_for(state="attached")
    same = hand.page.locator(".chart").first.inner_html() == before
    return "the link shows the same chart" if same else "the link shows ANOTHER chart"


def do_tasks(looked: Looked, case: str, *, has_releases: bool, since: str) -> list[Task]:
    """All of them, each from the first page on."""
    told: list[tuple[str, str, Callable[[Hand], str]]] = [
        ("what got worse lately, and whose is it", "", lambda hand: worse_lately(hand, since)),
        ("is this case noisy", "/ name ↓ Enter", lambda hand: is_it_noisy(hand, case)),
        ("log of the failed run", "", log_of_the_failed),
        ("send a colleague exactly this view", "", send_this_view),
    ]
    if has_releases:
        told.insert(2, ("compare two releases", "", compare_releases))
    found = []
    for question, keys, act in told:
        hand = Hand(looked.open())
        started_s = time.perf_counter()
        answer = act(hand)
        found.append(Task(question, hand.clicks, keys, time.perf_counter() - started_s, answer))
    return found
