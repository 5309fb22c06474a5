"""Text of HTML pages, and the language it is in, with resiliparse: offline and without models to download."""

from collections.abc import Mapping, Sequence

import numpy as np

from paceline.curate.documents import Documents
from paceline.curate.stage import Stage
from paceline.curate.task import Task
from paceline.errors import needs_extra

UNKNOWN = "unknown"
# The detector compares counts of letter groups; beyond this distance, or in shorter texts, it only guesses.
MAX_DISTANCE = 1000
MIN_CHARACTERS = 40


def html_to_text(body: bytes, charset: str = "") -> str:
    """The main content of a page: paragraphs apart, without navigation, scripts and forms."""
    with needs_extra("curate", "extracting text from HTML"):
        from resiliparse.extract.html2text import extract_plain_text
        from resiliparse.parse.encoding import detect_encoding
        from resiliparse.parse.html import HTMLTree
    encoding = charset if _is_known(charset) else detect_encoding(body, from_html_meta=True)
    text: str = extract_plain_text(
        HTMLTree.parse_from_bytes(body, encoding), main_content=True, alt_texts=False
    )
    return text.strip()


def _is_known(charset: str) -> bool:
    try:
        return bool("x".encode(charset)) if charset else False
    except (LookupError, ValueError):
        return False


def detect_language(text: str) -> str:
    """The two-letter code of the likeliest language, or `unknown`."""
    with needs_extra("curate", "detecting languages"):
        from resiliparse.parse.lang import detect_fast
    if len(text) < MIN_CHARACTERS:
        return UNKNOWN
    return str(detect_fast(text, cutoff=MAX_DISTANCE)[0])


class LanguageStage(Stage):
    """Batches of documents -> the same with a `language` field, and only those in the languages asked for."""

    name = "language"

    def __init__(self, *, text_field: str, languages: Sequence[str] = ()) -> None:
        self.text_field = text_field
        self.languages = frozenset(languages)
        self._dropped = 0

    def process(self, task: Task) -> Task:
        documents: Documents = task.data
        found = [detect_language(text) for text in documents.values(self.text_field)]
        documents = documents.with_fields({"language": found})
        if self.languages:
            mask = np.array([language in self.languages for language in found], dtype=np.bool_)
            self._dropped += int((~mask).sum())
            documents = documents.keep(mask)
        return task.carrying(documents)

    def take_metrics(self) -> Mapping[str, float]:
        dropped, self._dropped = self._dropped, 0
        return {"dropped": float(dropped)}
