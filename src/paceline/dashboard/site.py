"""The shell of the dashboard: one page, one script and one style sheet, built from `frontend/`."""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files

ASSETS = ("app.js", "app.css", "early.js")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'"
)
"""Nothing from outside, no code inside the page, no text turned into code."""

_PAGE = """<!doctype html>
<html lang="en"{shards}>
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>Paceline</title>
<link rel="icon" href="assets/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="assets/app.css">
{feed}<script src="assets/early.js"></script>
<script src="data/overview.js" defer></script>
<script src="assets/app.js" defer></script>
</head>
<body{live}>
<div id="app"></div>
<noscript><p>This page draws its charts with JavaScript, which is switched off here.</p></noscript>
</body>
</html>
"""

ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#0b5fa5"/>'
    '<path d="M5 21l6-1 5-9 5 7 6-2" fill="none" stroke="#fff" stroke-width="3" stroke-linecap="round" '
    'stroke-linejoin="round"/></svg>\n'
)


def index_page(*, token: str = "", shards: int = 0) -> bytes:
    """The page itself; a live one asks its server for news, and sends what people say with the token.

    It may say how many files the list of sessions has.
    """
    feed = '<link rel="alternate" type="application/atom+xml" title="Regressions" href="feed.xml">\n'
    data = {
        "live": f' data-live="1" data-token="{token}"' if token else "",
        "shards": f' data-shards="{shards}"' if shards else "",
    }
    return _PAGE.format(policy=POLICY, feed=feed, **data).encode()


@cache
def asset(name: str) -> bytes:
    """One of the built files."""
    return (
        ICON.encode() if name == "icon.svg" else (files("paceline.dashboard") / "static" / name).read_bytes()
    )


def shell(*, token: str = "", shards: int = 0) -> Iterator[tuple[str, bytes]]:
    """All files of the site that hold no data, by their paths."""
    yield "index.html", index_page(token=token, shards=shards)
    for name in (*ASSETS, "icon.svg"):
        yield f"assets/{name}", asset(name)
