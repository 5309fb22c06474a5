"""From a list of WARC files to documents: list, download, extract; the text of HTML pages, and its language.

Text and language are found with resiliparse: offline and without models to download.
"""

import gzip
import shutil
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, cast
from urllib.parse import urlsplit

import numpy as np

from paceline.curate.documents import Documents, LineDocuments, Source
from paceline.curate.errors import BadRecord, PipelineError
from paceline.curate.stage import ReaderStage, SplitStage, Stage
from paceline.curate.storage import draft, find, is_directory, is_remote, open_raw
from paceline.curate.task import Origin, Reject, Task
from paceline.curate.warc import Damage, WarcRecord, parse_response, read_warc, record_places
from paceline.errors import needs_extra
from paceline.urls import split_login

WARC_SUFFIXES = (".warc.gz", ".warc")
LIST_SUFFIXES = (".txt", ".paths", ".paths.gz")
CRAWL_HOST = "https://data.commoncrawl.org/"
HTML_TYPES = ("text/html", "application/xhtml+xml")
TIMEOUT_S = 60.0
# Large enough that what is read before a range, to be in step, is little beside it.
RANGE_BYTES = 128 * 1_048_576
# Text of documents that go on together.
BATCH_BYTES = 16 * 1_048_576

UNKNOWN = "unknown"
# The detector compares counts of letter groups; beyond this distance, or in shorter texts, it only guesses.
MAX_DISTANCE = 1000
MIN_CHARACTERS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class WarcRange:
    """The records of a WARC file that begin from `start` to before `end` (None: to its end)."""

    path: str
    start: int = 0
    end: int | None = None


class WarcListStage(SplitStage):
    """Lists WARC files and cuts large ones into ranges: each is a unit of work.

    The source is a WARC file, a directory with such, an address of one, or a list (`.txt`, `.paths`, `.paths.gz`)
    with a path or address a line; lines of a list that are neither are paths of Common Crawl.
    """

    name = "warc_list"

    def __init__(self, source: str, *, limit: int | None = None, range_bytes: int = RANGE_BYTES) -> None:
        if (limit is not None and limit < 1) or range_bytes < 1:
            raise PipelineError("warc_list: the limit and range_bytes must be at least 1")
        self.source = source
        self.limit = limit
        self.range_bytes = range_bytes

    def input_bytes(self) -> int | None:
        places = list_warcs(self.source)[: self.limit]
        return None if any(map(is_fetched, places)) else sum(map(_file_bytes, places))

    def process(self, task: Task) -> Iterator[Task]:
        seen: Counter[str] = Counter()
        for place in list_warcs(self.source)[: self.limit]:
            name = _stem(place)
            seen[name] += 1
            # Documents are written to a file of this name, so no two may share it.
            unique = name if seen[name] == 1 else f"{name}-again-{seen[name]}"
            for part, size_bytes in cut_warc(place, self.range_bytes):
                whole = not part.start and part.end is None
                yield Task(
                    data=part,
                    dataset_name=task.dataset_name,
                    task_id=unique if whole else f"{unique}-{part.start:012d}",
                    origin=Origin(path=place),
                    size_bytes=size_bytes,
                )


def _file_bytes(path: str) -> int:
    found = find(path)
    return found[0][1] if found else 0


def cut_warc(path: str, range_bytes: int) -> Iterator[tuple[WarcRange, int]]:
    """The ranges of a file with their sizes; one that must be fetched, or is missing, is taken whole."""
    size_bytes = 0 if is_fetched(path) else _file_bytes(path)
    if path.endswith(".gz"):
        starts = list(range(0, size_bytes, range_bytes)) or [0]
    elif size_bytes > range_bytes and not is_remote(path):
        with open_raw(path) as file:
            starts = [0, *record_places(file, range_bytes)]
    else:
        # From header to header through a remote file would be a request each.
        starts = [0]
    for start, end in zip(starts, [*starts[1:], None], strict=True):
        yield WarcRange(path=path, start=start, end=end), (size_bytes if end is None else end) - start


def is_fetched(place: str) -> bool:
    """Whether a file is on a web server, from which it is downloaded; other addresses are read in place."""
    return place.startswith(("http://", "https://"))


def _stem(place: str) -> str:
    name = place.rpartition("/")[2]
    return next((name.removesuffix(tail) for tail in WARC_SUFFIXES if name.endswith(tail)), name)


def list_warcs(source: str) -> list[str]:
    """Paths and addresses, in the order of the list or of the names."""
    if source.endswith(LIST_SUFFIXES):
        return [_resolve(line, source) for line in _read_list(source).splitlines() if line.strip()]
    if is_fetched(source):
        return [source]
    files = [file for file, _ in find(source)]
    if files == [source]:
        return files
    if not files and not is_directory(source):
        raise PipelineError(f"{source}: no such file or directory")
    found = [file for file in files if file.endswith(WARC_SUFFIXES)]
    if not found:
        raise PipelineError(f"{source}: no WARC files (.warc, .warc.gz) in this directory")
    return found


def _resolve(line: str, source: str) -> str:
    line = line.strip()
    if is_remote(line) or Path(line).exists():
        return line
    beside = Path(source).parent / line
    return str(beside) if not is_remote(source) and beside.exists() else CRAWL_HOST + line.lstrip("/")


def _read_list(source: str) -> str:
    try:
        with _open(source) as file:
            data = file.read()
        return (gzip.decompress(data) if source.endswith(".gz") else data).decode()
    except (OSError, ValueError, EOFError) as error:
        raise PipelineError(f"{source}: the list cannot be read: {error}") from error


class WarcDownloadStage(Stage):
    """Addresses of web servers -> files below `directory`, fetched unless they are there already; others pass."""

    name = "warc_download"

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def process(self, task: Task) -> Task | Reject:
        part: WarcRange = task.data
        if not is_fetched(part.path):
            return task
        address = urlsplit(part.path)
        target = Path(self.directory) / f"{address.netloc}{address.path}".replace("/", "-").lstrip(".-")
        try:
            if not target.exists():
                self.count(bytes=_fetch(part.path, target))
        except (OSError, ValueError) as error:
            return Reject(
                stage=self.name, reason=f"cannot be fetched: {error}", origin=task.origin, label=part.path
            )
        return task.carrying(replace(part, path=str(target)))


def _fetch(place: str, target: Path) -> int:
    part = draft(target)
    try:
        with _open(place) as source, part.open("wb") as file:
            shutil.copyfileobj(source, file, 1_048_576)
            # What a server promised and did not send.
            if missing := getattr(source, "length", None):
                raise OSError(f"the connection ended {missing} bytes too early")
        part.rename(target)
    finally:
        part.unlink(missing_ok=True)
    return target.stat().st_size


def _open(place: str) -> IO[bytes]:
    if is_fetched(place):
        address, login = split_login(place)
        asked = urllib.request.Request(address)  # noqa: S310 - http only
        for header in login.items():
            asked.add_unredirected_header(*header)  # for one address only
        return cast(IO[bytes], urllib.request.urlopen(asked, timeout=TIMEOUT_S))  # noqa: S310
    return open_raw(place)


class WarcTextStage(ReaderStage):
    """Ranges of WARC files -> batches of documents: `url`, `warc_id`, `date` and the `text` of each page that has some.

    Answers other than 200 and other than HTML are passed over and counted; what is damaged is rejected.
    """

    name = "warc_text"
    counts = "responses"

    def __init__(self, *, batch_bytes: int = BATCH_BYTES) -> None:
        self.batch_bytes = batch_bytes

    def process(self, task: Task) -> Iterator[Task | Reject]:
        part: WarcRange = task.data
        path = part.path
        held: list[dict[str, str]] = []
        size_bytes = start = 0
        try:
            with open_raw(path) as file:
                for found in read_warc(file, begin=part.start, end=part.end):
                    product = self._extract(found, path)
                    if isinstance(product, Reject):
                        yield product
                    elif product is not None:
                        held.append(product)
                        size_bytes += len(product["text"])
                    if size_bytes >= self.batch_bytes:
                        yield self._batch(task, path, start, held)
                        held, size_bytes, start = [], 0, start + len(held)
        except OSError as error:
            yield self._refuse(Origin(path=path), f"cannot be read: {error}")
        if held:
            yield self._batch(task, path, start, held)

    def _extract(self, found: WarcRecord | Damage, path: str) -> dict[str, str] | Reject | None:
        if isinstance(found, Damage):
            return self._refuse(Origin(path=path), f"byte {found.offset}: {found.reason}")
        if found.kind != "response":
            return None
        self.count(responses=1)
        url = found.headers.get("warc-target-uri", "").strip("<>")
        try:
            response = parse_response(found.content)
        except BadRecord as error:
            return self._refuse(Origin(path=path), f"{url}: {error}")
        kind, _, options = response.headers.get("content-type", "").partition(";")
        if response.status != 200 or kind.strip().lower() not in HTML_TYPES:
            return None
        self.count(pages=1)
        text = html_to_text(response.body, _charset(options))
        if not text:
            self.count(empty=1)
            return None
        identity = found.headers.get("warc-record-id", "").strip("<>").removeprefix("urn:uuid:")
        return {"url": url, "warc_id": identity, "date": found.headers.get("warc-date", ""), "text": text}

    def _batch(self, task: Task, path: str, start: int, held: list[dict[str, str]]) -> Task:
        # Batches are numbered always: whether there is a second one is not known when the first is written.
        source = Source(name=f"{task.task_id}.jsonl", path=path, start=start, whole=False)
        documents = LineDocuments(lines=[None] * len(held), records=list(held), source=source)
        return Task(documents, task.dataset_name, source.output_name(), Origin(path=path))

    def _refuse(self, origin: Origin, reason: str) -> Reject:
        self.count(damaged=1)
        return Reject(stage=self.name, reason=reason, origin=origin, label=str(origin))


def _charset(options: str) -> str:
    for option in options.split(";"):
        name, _, value = option.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip("\"'")
    return ""


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

    def process(self, task: Task) -> Task:
        documents: Documents = task.data
        found = [detect_language(text) for text in documents.values(self.text_field)]
        documents = documents.with_fields({"language": found})
        if self.languages:
            mask = np.array([language in self.languages for language in found], dtype=np.bool_)
            self.count(dropped=int((~mask).sum()))
            documents = documents.keep(mask)
        return task.carrying(documents)
