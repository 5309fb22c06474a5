"""From WARC files to documents, as a user runs it; nothing leaves this machine."""

import gzip
import json
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("resiliparse")
import pyarrow.parquet as pq

from paceline.curate import PipelineError
from paceline.curate.crawl import _open, detect_language, html_to_text, list_warcs

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
ENGLISH = "It was a bright cold day in the town and the people were out with their dogs by the water."
GERMAN = "Es war ein kalter Tag in der Stadt und die Leute waren mit ihren Hunden unten am Wasser."


def call(script: str, *words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(BENCHMARKS / script), *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )


def record(url: str, content: bytes, kind: str = "response") -> bytes:
    head = f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\nWARC-Record-ID: <urn:uuid:{url}>\r\n"
    return gzip.compress(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content + b"\r\n\r\n")


def page(
    body: str, *, status: str = "200 OK", kind: str = "text/html; charset=utf-8", code: str = "utf-8"
) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n\r\n".encode() + body.encode(code)


def test_text_is_the_main_content_in_the_right_encoding() -> None:
    html = f"<html><nav><a href=/>Home</a></nav><main><h1>Tête</h1><p>{ENGLISH}</p><script>x=1</script></main></html>"
    assert html_to_text(html.encode("latin-1"), "latin-1") == f"Tête\n\n{ENGLISH}"
    meta = html.replace("<html>", "<html><head><meta charset=utf-8></head>")
    assert html_to_text(meta.encode(), "no-such-charset") == f"Tête\n\n{ENGLISH}"
    assert html_to_text(b"") == "" and html_to_text(b"\x00\xff<p") == html_to_text(b"\x00\xff<p")


def test_languages_are_told_apart_and_short_texts_are_not_guessed() -> None:
    assert (detect_language(ENGLISH), detect_language(GERMAN), detect_language("Hello")) == (
        "en",
        "de",
        "unknown",
    )


@pytest.fixture
def warcs(tmp_path: Path) -> Path:
    answers = [
        page(f"<p>{ENGLISH}</p>"),
        page(f"<p>{GERMAN}</p>"),
        page(f"<p>{ENGLISH}</p>", status="404 Not Found"),
        page("binary", kind="image/png"),
        page("<script>x</script>"),
        b"no answer at all",
    ]
    packed = [record(f"http://a.b/{number}", answer) for number, answer in enumerate(answers)]
    broken = bytearray(record("http://a.b/broken", page(ENGLISH)))
    broken[40:44] = b"\xff\xff\xff\xff"
    request = record("http://a.b/0", b"GET / HTTP/1.1\r\n\r\n", "request")
    directory = tmp_path / "warcs"
    directory.mkdir()
    (directory / "one.warc.gz").write_bytes(b"".join([request, packed[0], bytes(broken), *packed[1:]]))
    (directory / "two.warc").write_bytes(
        gzip.decompress(record("http://a.b/plain", page(f"<p>{ENGLISH} Two</p>")))
    )
    return directory


def metrics_of(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((path / "metrics.json").read_text())
    return found


def test_pages_become_documents_and_damage_is_counted(warcs: Path, tmp_path: Path) -> None:
    words = ("--benchmark-results-path", tmp_path / "r", "--input-path", warcs, "--no-quality-filters")
    ran = call("scripts/common_crawl_benchmark.py", *words, "--output_path", tmp_path / "out")
    assert ran.returncode == 0, ran.stderr
    files = sorted((tmp_path / "out").glob("*.jsonl"))
    documents = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert [(one["url"], one["text"], one["language"]) for one in documents] == [
        ("http://a.b/0", ENGLISH, "en"),
        ("http://a.b/plain", f"{ENGLISH} Two", "en"),
    ]
    metrics = metrics_of(tmp_path / "r")
    names = (
        "input_documents",
        "pages",
        "pages_without_text",
        "removed_language",
        "output_documents",
        "rejected",
    )
    assert [metrics[f"num_{name}"] for name in names] == [7, 4, 1, 1, 2, 2]
    reasons = [
        json.loads(line)["reason"] for line in (tmp_path / "r" / "rejects.jsonl").read_text().splitlines()
    ]
    assert any("packed data is damaged" in reason for reason in reasons)
    assert any("no HTTP response" in reason for reason in reasons)


class Asking(BaseHTTPRequestHandler):
    """Notes how it is asked, and answers."""

    def __init__(self, sent: list[str | None], *args: Any) -> None:
        self._sent = sent
        super().__init__(*args)

    def log_message(self, *_: object) -> None: ...

    def do_GET(self) -> None:
        self._sent.append(self.headers.get("Authorization"))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"all of it")


@pytest.fixture
def server(warcs: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(warcs))) as httpd:
        thread = threading.Thread(target=httpd.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()
        thread.join()


def test_an_address_may_have_a_name_and_password() -> None:
    sent = list[str | None]()
    with HTTPServer(("127.0.0.1", 0), partial(Asking, sent)) as httpd:
        thread = threading.Thread(target=httpd.handle_request)
        thread.start()
        with _open(f"http://me:pw@127.0.0.1:{httpd.server_port}/x") as file:
            assert file.read() == b"all of it"
        thread.join()
    assert sent == [f"Basic {b64encode(b'me:pw').decode()}"]


def test_addresses_are_fetched_once_and_the_limit_holds(server: str, tmp_path: Path) -> None:
    listing = tmp_path / "list.txt"
    listing.write_text(f"{server}/one.warc.gz\n{server}/missing.warc.gz\n{server}/two.warc\n")
    words = (
        *(
            "--benchmark-results-path",
            tmp_path / "r",
            "--input-path",
            listing,
            "--url_limit",
            2,
            "--languages",
        ),
        *("--download_path", tmp_path / "d", "--output_path", tmp_path / "out", "--output_format", "parquet"),
    )
    ran = call("scripts/common_crawl_benchmark.py", *words, "--no-quality-filters")
    assert ran.returncode == 0, ran.stderr
    table = pq.read_table(tmp_path / "out").to_pylist()
    assert [(one["url"], one["language"]) for one in table] == [
        ("http://a.b/0", "en"),
        ("http://a.b/1", "de"),
    ]
    metrics = metrics_of(tmp_path / "r")
    assert metrics["num_rejected"] == 3 and metrics["downloaded_bytes"] > 0
    assert "cannot be fetched" in (tmp_path / "r" / "rejects.jsonl").read_text()
    again = call("scripts/common_crawl_benchmark.py", *words, "--no-quality-filters")
    assert again.returncode == 0 and metrics_of(tmp_path / "r")["downloaded_bytes"] == 0


def test_lists_name_files_addresses_and_paths_of_the_crawl(warcs: Path, tmp_path: Path) -> None:
    assert [Path(found).name for found in list_warcs(str(warcs))] == ["one.warc.gz", "two.warc"]
    (warcs / "list.paths.gz").write_bytes(
        gzip.compress(b"two.warc\n\ncrawl-data/x.warc.gz\nhttp://a/b.warc\n")
    )
    assert list_warcs(str(warcs / "list.paths.gz")) == [
        str(warcs / "two.warc"),
        "https://data.commoncrawl.org/crawl-data/x.warc.gz",
        "http://a/b.warc",
    ]
    (tmp_path / "empty").mkdir()
    for source in ("empty", "nowhere", "nowhere.txt"):
        with pytest.raises(PipelineError):
            list_warcs(str(tmp_path / source))


def test_generated_pages_pass_the_filters(tmp_path: Path) -> None:
    made = call("data/make_warc.py", "--output", tmp_path / "w", "--files", 1, "--pages", 60)
    assert made.returncode == 0, made.stderr
    words = ("--benchmark-results-path", tmp_path / "r", "--input-path", tmp_path / "w")
    ran = call("scripts/common_crawl_benchmark.py", *words)
    assert ran.returncode == 0, ran.stderr
    metrics = metrics_of(tmp_path / "r")
    assert metrics["num_input_documents"] == 60 and 30 < metrics["num_output_documents"] < 60
    assert list((tmp_path / "r" / "documents").glob("*.jsonl"))
