"""Files that runs left can be opened: those of the run and no others, and none as something that could run."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Page, expect

from dashboard_browser import Watched, serious, watch
from dashboard_server import ask, serving
from dashboard_site import build_site, data
from paceline.dashboard.artifacts import MOST_FILES, TYPES, Entry, SafePath, find_artifacts, safe_ending
from paceline.history import open_store
from paceline.model import Plan
from paceline.record.directory import SessionDir
from stored_records import ENVIRONMENT, record, session
from workplace import Workplace

SECRET = "kept to ourselves"
ACTIVE = b"<html><script>window.pwned=1</script><img src=x onerror='window.pwned=1'></html>"
DRAWING = (
    b"<svg xmlns='http://www.w3.org/2000/svg' onload='window.pwned=1'><script>window.pwned=1</script></svg>"
)
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(40)
HOSTILE = {
    b"<img src=x onerror='window.pwned=1'>.html": ACTIVE,
    b"flame.svg": DRAWING,
    b"javascript:window.pwned=1": b"alert(1)",
    b"a b#c?d%2e%2e%2f.txt": "Grüße\n".encode(),
    b"gpj.exe": b"MZ\0\x90",
    b"ff.bin": b"\xff\xfe\0",
    b"up\\..\\..\\up.html": ACTIVE,
    b"fig.png": PICTURE,
    b"empty": b"",
}


def make_run(directory: Path, results: Path) -> Path:
    """A session with one case that left all sorts of files; returns the case's directory."""
    outside = directory / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text(SECRET)
    path = results / "night-1"
    one = record("sort", 1.0, number=1, artifacts=("../../outside/secret.txt",))
    with open_store(directory / "benchmark.db") as store:
        store.add(session(1, directory=str(path)), ENVIRONMENT, [one])
    entry = SessionDir.create(Plan(session="night-1", directory=path)).prepare(one.case)
    artifacts = entry / "artifacts"
    for name, content in HOSTILE.items():
        Path(os.fsdecode(os.fsencode(artifacts) + b"/" + name)).write_bytes(content)
    (artifacts / "plots").mkdir()
    (artifacts / "plots" / "deep.txt").write_text("deep")
    (artifacts / ".hidden").write_text(SECRET)
    for name in ("\u202egpj.exe\u0007\n".encode(), b"\xff\xfe.bin"):  # Nobody could tell what it is.
        Path(os.fsdecode(os.fsencode(artifacts) + b"/" + name)).write_text(SECRET)
    (artifacts / "link.txt").symlink_to(outside / "secret.txt")
    (artifacts / "way").symlink_to(outside)
    (artifacts / "round").symlink_to(entry)
    os.mkfifo(artifacts / "pipe")
    (entry / "scratch").mkdir(exist_ok=True)
    (entry / "scratch" / "data.txt").write_text(SECRET)
    (entry / "attempts" / "attempt-1").mkdir(parents=True)
    (entry / "attempts" / "attempt-1" / "old.txt").write_text(SECRET)
    (entry / "logs" / "stdouterr.log").write_text("short output\n")
    return entry


def listed(out: Path) -> dict[str, Any]:
    """What the case's page says of each file."""
    return {one["name"]: one for one in data(out, f"files/{session(1).id}/0")["files"]}


def shown_name(name: bytes) -> str:
    return f"artifacts/{name.decode('utf-8', 'replace')}"


def test_the_site_has_the_files_of_the_run_and_no_others(tmp_path: Path) -> None:
    make_run(tmp_path, tmp_path / "results")
    out = tmp_path / "out"
    build_site(tmp_path / "benchmark.db", out)
    found = listed(out)
    names = {shown_name(name) for name in HOSTILE} | {"artifacts/plots/deep.txt", "logs/stdouterr.log"}
    assert set(found) == names
    for name, content in HOSTILE.items():
        assert (out / found[shown_name(name)]["at"]).read_bytes() == content
    assert found["logs/stdouterr.log"] == {"name": "logs/stdouterr.log", "bytes": 13, "shown": True}
    written = [path for path in out.rglob("*") if path.is_file()]
    assert not [path for path in written if SECRET.encode() in path.read_bytes()]
    copies = [path for path in written if path.relative_to(out).parts[0] == "artifacts"]
    assert {path.suffix for path in copies} == {".txt", ".bin", ".png"}
    assert len(copies) == len(set(HOSTILE.values())) + 1  # equal ones once, and the deep one
    assert found[shown_name(b"flame.svg")]["at"].endswith(".txt")


def copies_in(out: Path) -> list[str]:
    return sorted(path.name for path in (out / "artifacts").rglob("*") if path.is_file())


def test_copies_come_and_go_with_their_session(tmp_path: Path) -> None:
    entry = make_run(tmp_path, tmp_path / "results")
    (entry / "artifacts" / "large.txt").write_text("x" * 5000)
    database, out = tmp_path / "benchmark.db", tmp_path / "out"
    build_site(database, out, largest_file_bytes=4000)
    assert "at" not in listed(out)["artifacts/large.txt"] and len(copies_in(out)) == 9
    build_site(database, out)
    assert (out / listed(out)["artifacts/large.txt"]["at"]).stat().st_size == 5000
    everything = copies_in(out)
    build_site(database, out)
    assert copies_in(out) == everything
    build_site(database, out, largest_file_bytes=-1)
    assert copies_in(out) == [] and not [one for one in listed(out).values() if "at" in one]
    build_site(database, out)
    build_site(database, out, files_of=0)
    assert copies_in(out) == []


def test_logs_that_are_kept_elsewhere_are_files_of_the_run(tmp_path: Path) -> None:
    plan = Plan(session="night", directory=tmp_path / "results" / "night", artifacts_dir=tmp_path / "bulk")
    entry = SessionDir.create(plan).prepare(record("sort").case)
    (entry / "logs" / "worker.log").write_text("hello")
    assert (tmp_path / "bulk" / "night" / "sort" / "logs" / "worker.log").is_file()
    here = SafePath(tmp_path / "results", "night/sort")
    there = SafePath(tmp_path / "bulk", "night/sort")
    (found,) = find_artifacts(Entry(here, there))
    assert (found.name, found.path) == ("logs/worker.log", there / "logs/worker.log")
    assert find_artifacts(Entry(here)) == []
    (entry / "logs").unlink()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "worker.log").write_text(SECRET)
    (entry / "logs").symlink_to(tmp_path / "other")
    assert find_artifacts(Entry(here)) == []
    assert find_artifacts(Entry(here, there)) == [found]  # where the link leads is not asked


def test_of_several_runs_the_last_ones_files_are_listed(tmp_path: Path) -> None:
    for label in ("warmup-1", "repeat-2", "repeat-10", "attempt-1"):
        (tmp_path / "attempts" / label / "logs").mkdir(parents=True)
        (tmp_path / "attempts" / label / "logs" / "worker.log").touch()
    assert [one.name for one in find_artifacts(Entry(SafePath(tmp_path, "")))] == [
        "attempts/repeat-10/logs/worker.log"
    ]


def test_of_very_many_files_some_are_listed(tmp_path: Path) -> None:
    for number in range(MOST_FILES + 20):
        (tmp_path / f"part-{number:04}").touch()
    assert len(find_artifacts(Entry(SafePath(tmp_path, "")))) == MOST_FILES


@given(
    st.binary(max_size=64), st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"GIF8", b"\xff\xd8\xff", b"<html>"])
)
def test_every_content_has_a_kind_that_runs_nothing(content: bytes, beginning: bytes) -> None:
    ending = safe_ending(beginning + content)
    assert ending in TYPES
    assert not {"html", "svg", "xml", "script"} & set(TYPES[ending].replace("+", "/").split("/"))
    if ending == "txt":
        assert b"\0" not in content


def test_a_character_that_is_cut_is_still_text() -> None:
    assert safe_ending("Grüße".encode()[:3]) == "txt"
    assert safe_ending(b"Gr\xfc\xdfe") == "bin"


def open_files(page: Page) -> None:
    page.locator("summary", has_text="files of this run").click()
    expect(page.locator(".files")).to_contain_text("flame.svg")


def opened(page: Page, name: str) -> Page:
    """What a click on a file's name opens."""
    with page.context.expect_page() as found:
        page.locator(".files a:not([download])", has_text=name).click()
    found.value.wait_for_load_state()
    return found.value


@contextmanager
def without_policy(watched: Watched) -> Iterator[Watched]:
    """A page that lets the accessibility check in."""
    browser = watched.page.context.browser
    assert browser
    context = browser.new_context(bypass_csp=True)
    yield watch(context)
    context.close()


def test_on_disk_a_file_opens_as_text_or_picture(watched: Watched, axe: str, tmp_path: Path) -> None:
    make_run(tmp_path, tmp_path / "results")
    build_site(tmp_path / "benchmark.db", tmp_path / "out")
    page = watched.open(f"{(tmp_path / 'out').as_uri()}/index.html#/session/{session(1).id}?case=sort")
    open_files(page)
    expect(page.locator(".files")).to_contain_text("<img src=x onerror='window.pwned=1'>.html")
    expect(page.locator(".files li", has_text="stdouterr.log")).to_contain_text("above as the output")
    hrefs = page.eval_on_selector_all(".files a", "all => all.map(a => a.getAttribute('href'))")
    assert hrefs and all(href.startswith("artifacts/") for href in hrefs)
    for name, kind in (("flame.svg", "text/plain"), ("onerror", "text/plain"), ("fig.png", "image/png")):
        shown = opened(page, name)
        assert shown.evaluate("() => [document.contentType, typeof window.pwned]") == [kind, "undefined"]
        shown.close()
    with page.expect_download() as download:
        page.get_by_role("button", name="TXT").click()
    assert Path(download.value.path()).read_text() == "short output\n"
    with without_policy(watched) as checked:
        assert serious(checked.open(page.url), axe) == []


def test_a_server_hands_files_out_as_what_runs_nothing(place: Workplace, watched: Watched) -> None:
    entry = make_run(place.path, place.path / "results")
    large = bytes(range(256)) * 20000
    (entry / "artifacts" / "large.bin").write_bytes(large)
    with serving(place) as port:
        page = watched.open(f"http://localhost:{port}/#/session/{session(1).id}?case=sort")
        open_files(page)
        at = page.eval_on_selector_all(
            ".files li", "all => all.map(li => [li.innerText, li.querySelector('a')?.getAttribute('href')])"
        )
        path = {name: next(href for text, href in at if name in text) for name in ("flame", "large", "fig")}
        shown = opened(page, "flame.svg")
        assert shown.evaluate("() => [document.contentType, typeof window.pwned]") == [
            "text/plain",
            "undefined",
        ]
        shown.close()
        with page.expect_download() as download:
            page.locator(".files a", has_text="large.bin").click()
        assert download.value.suggested_filename == "large.bin"
        assert Path(download.value.path()).read_bytes() == large
        page.goto("about:blank")
        check_headers(port, path, large)
        check_tricks(port, path["flame"], entry)


def check_headers(port: int, path: dict[str, str], large: bytes) -> None:
    status, headers, body = ask(port, f"/{path['flame']}")
    assert (status, body) == (200, DRAWING)
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert "sandbox" in headers["Content-Security-Policy"] and headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Disposition"] == "inline; filename*=UTF-8''flame.svg"
    status, headers, body = ask(port, f"/{path['large']}", "HEAD")
    assert (status, body, headers["Content-Length"]) == (200, b"", str(len(large)))
    assert headers["Content-Type"] == "application/octet-stream"
    assert headers["Content-Disposition"].startswith("attachment;")
    assert ask(port, f"/{path['fig']}")[1]["Content-Type"] == "image/png"
    assert ask(port, f"/{path['flame']}", Host="evil.example")[0] == 403


def check_tricks(port: int, path: str, entry: Path) -> None:
    folder = path.rpartition("/")[0]
    for trick in (
        f"{folder}/{'0' * 16}.txt",
        f"{folder}/../../../benchmark.db",
        f"{folder}/..%2f..%2f..%2fbenchmark.db",
        f"{folder}/artifacts/link.txt",
        path.replace("/0/", "/7/"),
        path.replace(session(1).id, session(2).id),
        f"{path}%00",
    ):
        assert ask(port, f"/{trick}")[0] == 404, trick
    (entry / "artifacts" / "flame.svg").unlink()
    (entry / "artifacts" / "flame.svg").symlink_to(entry.parents[2] / "outside" / "secret.txt")
    assert ask(port, f"/{path}")[0] == 404
