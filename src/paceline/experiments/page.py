"""The frame of a page that stands alone."""

from html import escape

from paceline.report.format import visible


def open_page(title: str, style: str) -> str:
    """All up to the page's body; nothing is loaded and nothing runs, whatever a name in the data may hold.

    The title must be escaped.
    """
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>"
    )


CLOSE_PAGE = "</body>\n</html>"


def in_html(text: str) -> str:
    """Foreign text, safe in a page."""
    return escape(visible(text))
