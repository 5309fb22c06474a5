"""Text modifiers: each is a function from text to text, and gives the very same object where nothing changes.

Each looks first for a sign that there may be something to change; most texts have none.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

from paceline.curate.documents import Documents
from paceline.curate.errors import PipelineError
from paceline.curate.stage import Stage
from paceline.curate.task import Task
from paceline.curate.text_scores import FILLER, POLICY_ROOTS, is_boilerplate
from paceline.errors import needs_extra

_BOLD = re.compile(r"\*\*(.*?)\*\*")
_ITALIC = re.compile(r"\*(.*?)\*")
_UNDERLINE = re.compile(r"_(.*?)_")
_LINK = re.compile(r"\[.*?\]\((.*?)\)")
_NEWLINES = re.compile(r"\n{3,}")
_WINDOWS_NEWLINES = re.compile(r"(?:\r\n){3,}")
_URL = re.compile(r"https?://\S+|www\.\S+", flags=re.IGNORECASE)
_ENTITY = re.compile(r"&#?[0-9A-Za-z]{1,24};")
# Control characters, surrogates and marks that the repair removes or replaces wherever they stand.
_STRAY = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\ud800-\udfff\u206a-\u206f\ufeff\ufff9-\ufffc]")
_MAX_SEGMENT = 1_000_000


def remove_boilerplate(text: str) -> str:
    """Drop paragraphs about policies and cookies where they are a run at the top or the bottom; all of filler text."""
    lower = text.lower()
    if FILLER in lower:
        return ""
    if not any(root in lower for root in POLICY_ROOTS):
        return text
    paragraphs = text.split("\n\n")
    marked = [place for place, paragraph in enumerate(paragraphs) if is_boilerplate(paragraph)]
    if not marked or len(marked) == len(paragraphs):
        return text
    first, last = marked[0], marked[-1]
    at_an_end = first == 0 or last == len(paragraphs) - 1
    if last - first + 1 != len(marked) or not at_an_end:
        return text
    return "\n\n".join(paragraphs[:first] + paragraphs[last + 1 :])


def remove_markdown(text: str) -> str:
    """Bold, italic and underlined words without their marks, links as their address; within a line each."""
    if "*" in text:
        text = _ITALIC.sub(r"\1", _BOLD.sub(r"\1", text))
    if "_" in text:
        text = _UNDERLINE.sub(r"\1", text)
    return _LINK.sub(r"\1", text) if "](" in text else text


def normalize_newlines(text: str) -> str:
    """Three or more newlines in a row become two."""
    if "\n\n\n" in text:
        text = _NEWLINES.sub("\n\n", text)
    return _WINDOWS_NEWLINES.sub("\r\n\r\n", text) if "\r\n\r\n\r\n" in text else text


def remove_quotes(text: str) -> str:
    """A text in quotation marks without them, unless they may belong to its first line alone."""
    if len(text) < 3 or text[0] != '"' or text[-1] != '"':
        return text
    first_line, newline, _ = text.partition("\n")
    return text if newline and first_line[-1] == '"' else text[1:-1]


def remove_urls(text: str) -> str:
    """Addresses that begin with http, https or www are cut out up to the next white space."""
    if "://" not in text and "www." not in text.lower():
        return text
    return _URL.sub("", text)


def repair_unicode(text: str) -> str:
    """What ftfy repairs, line by line: wrong decodings, entities, stray control characters; quotes stay as they are."""
    if text.isascii() and not _STRAY.search(text) and ("&" not in text or not _ENTITY.search(text)):
        return text
    lines = text.split("\n")
    ftfy = _import_ftfy()
    config = ftfy.TextFixerConfig(
        fix_latin_ligatures=False,
        fix_character_width=False,
        uncurl_quotes=False,
        fix_line_breaks=False,
        normalization=None,
        explain=False,
    )
    if len(text) > _MAX_SEGMENT and max(map(len, lines)) >= _MAX_SEGMENT:
        return str(ftfy.fix_text(text, config))
    last = len(lines) - 1
    for place, line in enumerate(lines):
        # An angle bracket says that this is HTML, in which entities are meant; from there on they are left alone.
        if config.unescape_html == "auto" and "<" in line:
            config = config._replace(unescape_html=False)
        if _needs_repair(line, ftfy):
            whole = line if place == last else f"{line}\n"
            fixed = ftfy.fix_and_explain(whole, config).text
            lines[place] = fixed if place == last else fixed.removesuffix("\n")
    joined = "\n".join(lines)
    return text if joined == text else joined


def _needs_repair(line: str, ftfy: ModuleType) -> bool:
    if _STRAY.search(line) or ("&" in line and _ENTITY.search(line)):
        return True
    return not line.isascii() and bool(ftfy.badness.is_bad(line))


def _import_ftfy() -> ModuleType:
    with needs_extra("curate", "repairing Unicode"):
        import ftfy
        import ftfy.badness
    return ftfy


Modifier = Callable[[str], str]
# In the order in which they are applied.
MODIFIERS: Mapping[str, Modifier] = {
    "boilerplate": remove_boilerplate,
    "markdown": remove_markdown,
    "newlines": normalize_newlines,
    "quotes": remove_quotes,
    "unicode": repair_unicode,
    "urls": remove_urls,
}


class ModifierStage(Stage):
    """Batches of documents -> the same with their texts modified, by one modifier after the other."""

    name = "modifier"

    def __init__(self, *, text_field: str, modifiers: Sequence[str] = tuple(MODIFIERS)) -> None:
        unknown = next((name for name in modifiers if name not in MODIFIERS), None)
        if unknown is not None:
            raise PipelineError(f"modifier: no modifier {unknown!r}; there are {', '.join(MODIFIERS)}")
        self.text_field = text_field
        self.modifiers = tuple(modifiers)

    def process(self, task: Task) -> Task:
        documents: Documents = task.data
        before: list[str] = documents.values(self.text_field)
        texts = before
        for name in self.modifiers:
            changed = list(map(MODIFIERS[name], texts))
            self.count(**{name: _changes(texts, changed)})
            texts = changed
        self.count(any=_changes(before, texts))
        return task.carrying(documents.with_fields({self.text_field: texts}))


def _changes(before: Sequence[str], after: Sequence[str]) -> int:
    return sum(old is not new and old != new for old, new in zip(before, after, strict=True))
