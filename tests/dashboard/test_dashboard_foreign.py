"""Sessions, databases and sites that somebody else made: nothing outside is read, written, removed or run."""

import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from dashboard_browser import Watched
from dashboard_server import ask, serving
from dashboard_site import build_site, data
from paceline.dashboard import artifacts
from paceline.dashboard.encoding import data_file
from paceline.errors import HistoryError, PacelineError
from paceline.history import open_store
from paceline.model import Plan
from paceline.record import codec
from paceline.record.directory import SessionDir
from stored_records import ENVIRONMENT, record, session
from workplace import Workplace

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----"
IDENT = session(1).id


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """What is to stay with its owner."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "id_rsa").write_text(KEY)
    return tmp_path / "home"


def make_session(directory: Path, name: str = "night-1", case: str = "sort", **fields: Any) -> Path:
    """A session in `results`, and a history that has it; the directory of its case."""
    one = record(case, 1.0, number=1)
    path = directory / "results" / name
    told = {"name": name, "directory": str(path), **fields}
    with open_store(directory / "benchmark.db") as store:
        store.add(session(1, **told), ENVIRONMENT, [one])
    made = SessionDir.create(Plan(session=name, directory=path))
    (path / "plan.json").write_bytes(codec.dump({"secret_names": ["BADGE"], "cases": []}))
    return made.prepare(one.case)


def build_here(database: Path, out: Path, **options: Any) -> None:
    build_site(database, out, **{"results": database.parent / "results", **options})


def all_bytes(out: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file())


def change(database: Path, sql: str, *values: Any) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(sql, values)


def test_links_in_a_session_lead_nowhere(tmp_path: Path, home: Path) -> None:
    entry = make_session(tmp_path)
    (entry / "stdouterr.log").unlink()
    (entry / "stdouterr.log").symlink_to(home / "id_rsa")
    (entry / "logs" / "stdouterr.log").symlink_to(home / "id_rsa")
    (entry / "resources.csv").symlink_to(home / "id_rsa")
    (entry / "attempts").symlink_to(home)
    (entry / "artifacts" / "link").symlink_to(home)
    build_here(tmp_path / "benchmark.db", tmp_path / "out")
    assert KEY.encode() not in all_bytes(tmp_path / "out")


def test_the_directory_of_a_case_may_not_be_a_link(tmp_path: Path, home: Path) -> None:
    entry = make_session(tmp_path)
    shutil.rmtree(entry)
    entry.symlink_to(home)
    (home / "logs").mkdir()
    (home / "logs" / "stdouterr.log").write_text(KEY)
    (home / "stdouterr.log").write_text(KEY)
    build_here(tmp_path / "benchmark.db", tmp_path / "out")
    assert KEY.encode() not in all_bytes(tmp_path / "out")
    assert data(tmp_path / "out", f"session/{IDENT}")["files"] == []


def test_data_setup_may_not_be_a_link(tmp_path: Path, home: Path) -> None:
    make_session(tmp_path)
    (home / "keys").mkdir()
    (home / "keys" / "stdouterr.log").write_text(KEY)
    (tmp_path / "results" / "night-1" / "data_setup").symlink_to(home)
    change(tmp_path / "benchmark.db", "UPDATE \"case\" SET kind = 'data_setup', key = 'data_setup/keys'")
    build_here(tmp_path / "benchmark.db", tmp_path / "out")
    assert KEY.encode() not in all_bytes(tmp_path / "out")


@pytest.mark.parametrize("column", ["directory", "name"])
def test_a_database_chooses_no_directory(tmp_path: Path, home: Path, column: str) -> None:
    make_session(tmp_path)
    victim = home / "private"
    shutil.copytree(tmp_path / "results" / "night-1", victim, symlinks=True)
    (victim / "sort" / "logs" / "stdouterr.log").write_text(KEY)
    shutil.rmtree(tmp_path / "results" / "night-1")
    where = str(victim) if column == "directory" else "../home/private"
    change(tmp_path / "benchmark.db", f"UPDATE session SET name = 'x', directory = '', {column} = ?", where)
    for results in (tmp_path / "results", None):
        build_here(tmp_path / "benchmark.db", tmp_path / "out", results=results)
        assert KEY.encode() not in all_bytes(tmp_path / "out")
        shutil.rmtree(tmp_path / "out")


def test_a_session_is_found_in_a_folder_of_the_results(tmp_path: Path) -> None:
    (tmp_path / "results" / "team").mkdir(parents=True)
    entry = make_session(tmp_path, "team/night-1")
    (entry / "logs" / "stdouterr.log").write_text("hello")
    build_here(tmp_path / "benchmark.db", tmp_path / "out")
    assert data(tmp_path / "out", f"files/{IDENT}/0")["log"]["text"] == "hello"


def test_output_of_the_last_repetition_is_found_without_the_link(tmp_path: Path) -> None:
    entry = make_session(tmp_path)
    (entry / "stdouterr.log").unlink()
    for label in ("repeat-2", "repeat-10"):
        (entry / "attempts" / label / "logs").mkdir(parents=True)
        (entry / "attempts" / label / "logs" / "stdouterr.log").write_text(label)
    build_here(tmp_path / "benchmark.db", tmp_path / "out")
    assert data(tmp_path / "out", f"files/{IDENT}/0")["log"]["text"] == "repeat-10"


def test_logs_elsewhere_are_found_under_the_second_root_only(tmp_path: Path, home: Path) -> None:
    entry = make_session(tmp_path)
    bulk = tmp_path / "bulk" / "night-1" / "sort" / "logs"
    bulk.mkdir(parents=True)
    (bulk / "stdouterr.log").write_text("from bulk")
    shutil.rmtree(entry / "logs")
    (entry / "logs").symlink_to(home)  # Whatever the link says, the configuration names the root.
    build_here(tmp_path / "benchmark.db", tmp_path / "out", artifacts_dir=tmp_path / "bulk")
    assert data(tmp_path / "out", f"files/{IDENT}/0")["log"]["text"] == "from bulk"
    build_here(tmp_path / "benchmark.db", tmp_path / "other")
    assert "log" not in data(tmp_path / "other", f"session/{IDENT}")["files"]


def odd_files(directory: Path) -> None:
    """What never ends, or never answers."""
    os.mkfifo(directory / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(directory)  # a socket's name is short
        server.bind("socket")
        os.chdir(here)
    (directory / "zero").symlink_to("/dev/zero")


def test_pipes_and_devices_keep_nobody_waiting(place: Workplace) -> None:
    """Each place of a session and of a site that is read."""
    entry = make_session(place.path)
    path = entry.parent
    for name in ("logs/stdouterr.log", "resources.csv", "gpustats.csv", "record.json"):
        (entry / name).unlink(missing_ok=True)
        os.mkfifo(entry / name)
    odd_files(entry / "artifacts")
    for name in ("plan.json", "events.jsonl", "environment.json", "execution_summary.json"):
        (path / name).unlink(missing_ok=True)
        os.mkfifo(path / name)
    (place.path / "site" / "data").mkdir(parents=True)
    built = place.run("dashboard", "build", "out", "--results", "results", "--db", "benchmark.db")
    assert built.returncode == 0, built.stderr
    os.mkfifo(place.path / "site" / "data" / "manifest.json")
    refused = place.run("dashboard", "build", "site", "--db", "benchmark.db")
    assert refused.returncode != 0 and "not a regular file" in refused.stderr
    assert "Traceback" not in refused.stderr
    fresh = place.run("dashboard", "build", "new", "--results", "results", "--db", "none.db")
    assert fresh.returncode == 0, fresh.stderr


def test_a_server_answers_and_ends_beside_a_pipe(place: Workplace) -> None:
    entry = make_session(place.path)
    (entry / "logs" / "stdouterr.log").unlink(missing_ok=True)
    os.mkfifo(entry / "logs" / "stdouterr.log")
    lock = place.path / "results" / "night-2"
    lock.mkdir()
    os.mkfifo(lock / ".lock")
    with serving(place) as port:
        for path in (f"data/session/{IDENT}.js", f"data/files/{IDENT}/0.js", "live.json"):
            assert ask(port, f"/{path}")[0] in (200, 404)
    command = place.command("dashboard", "serve", "--port", "0")
    with subprocess.Popen(command, cwd=place.path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stdout.readline().startswith("http")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_an_address_runs_no_other_file(watched: Watched, tmp_path: Path) -> None:
    """A text that is JavaScript, left by a run, asked for as the page of a session."""
    entry = make_session(tmp_path)
    (entry / "artifacts" / "notes.txt").write_text("window.pwned = 1")
    out = tmp_path / "out"
    build_here(tmp_path / "benchmark.db", out)
    (copy,) = (out / "artifacts").rglob("*.txt")
    inner = str(copy.relative_to(out))
    for trick in (f"../../{inner}?", f"../../{inner}#", f"..\\..\\{inner}?", f"{IDENT}/../../../{inner}?"):
        written = quote(trick, safe="")
        doubled = quote(json_side(trick), safe="")
        for page in (
            f"session/{written}",
            f"compare?a=s%3A{written}&b=s%3A{IDENT}",
            f"compare?a=e%3A{doubled}&b=e%3A{doubled}",
        ):
            shown = watched.open(f"{out.as_uri()}/index.html#/{page}")
            shown.wait_for_timeout(200)
            assert shown.evaluate("() => typeof window.pwned") == "undefined", page
    assert not [url for url in watched.requests if "artifacts" in url]


def json_side(trick: str) -> str:
    return codec.dump([trick, "dense"]).decode()


@pytest.mark.parametrize(
    "name",
    [
        "environment/../../evil",
        "environment/1'+alert(1)+'",
        "x</script>",
        "x\u2028",
        "",
        "session/ABC",
        "a/g",
    ],
)
def test_a_data_file_has_a_known_name(name: str) -> None:
    with pytest.raises(ValueError, match="not the name of a data file"):
        data_file(name, {})


def test_text_of_the_database_stays_within_its_script() -> None:
    import orjson

    made = data_file(
        "overview", {"x": orjson.Fragment('"</script>\u2028\u2029"'), "y": orjson.Fragment("1\r\n")}
    )
    assert made.count(b"\n") == 1 and made.endswith(b"\n") and b"\r" not in made
    assert not {"\u2028", "\u2029"} & set(made.decode())


def make_environment_loose(database: Path, ident: str) -> None:
    """Let a table of ours have ids of text."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("ALTER TABLE environment RENAME TO old")
        connection.execute(
            "CREATE TABLE environment (id TEXT PRIMARY KEY, ident TEXT, class_id TEXT, python_version TEXT, "
            "platform TEXT, hostname TEXT, data TEXT)"
        )
        connection.execute("INSERT INTO environment SELECT * FROM old")
        connection.execute("UPDATE environment SET id = ?", (ident,))
        connection.execute("DROP TABLE old")


@pytest.mark.parametrize("ident", ["../../../evil", "1']);window.pwned=1;(['", "x" * 300])
def test_an_id_of_text_writes_nothing(tmp_path: Path, ident: str) -> None:
    make_session(tmp_path)
    make_environment_loose(tmp_path / "benchmark.db", ident)
    with pytest.raises(
        HistoryError, match=r"not a history that paceline made.*environment has not our column id"
    ):
        build_here(tmp_path / "benchmark.db", tmp_path / "a" / "b" / "out")
    assert not list(tmp_path.rglob("*.js"))


HOSTILE_ROWS = {
    "UPDATE record SET attempt = 'many'": "record.*attempt is not a whole number",
    "UPDATE record SET case_id = 77": "record.*case_id leads nowhere",
    "UPDATE record SET session_id = 12345678": "record.*session_id leads nowhere",
    "UPDATE record SET status = 'fine'": "record.*status is none that we know",
    "UPDATE session SET ident = 10000000000": "session.*ident is not an id of 16 bytes",
    "UPDATE session SET ident = x'00'": "session.*ident is not an id",
    "UPDATE session SET started_at = x'05'": "session.*started_at is not text",
    "UPDATE \"case\" SET params = '{'": "case.*params is not an object in JSON",
    "UPDATE setting SET data = '7'": "setting.*data is not an object in JSON",
    "UPDATE metric SET value = 'fast'": "metric.*value is not a number",
    "UPDATE metric SET sample_count = 'x'": "metric.*sample_count is not a whole number",
    "UPDATE environment SET id = -4": "environment|leads nowhere",
    "UPDATE series SET name = x'ff'": "series.*name is not text",
}


@pytest.mark.parametrize("sql", HOSTILE_ROWS)
def test_a_wrong_row_is_named_in_a_line(tmp_path: Path, sql: str) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        store.add(session(1), ENVIRONMENT, [record("sort", 1.0, number=1)])
        store.add(session(2), ENVIRONMENT, [record("sort", 1.0, number=2)])
    change(
        tmp_path / "benchmark.db",
        f"{sql} WHERE rowid = 1" if not {"metric", "status"} & set(sql.split()) else sql,
    )
    with pytest.raises(HistoryError, match=HOSTILE_ROWS[sql]) as caught:
        build_here(tmp_path / "benchmark.db", tmp_path / "out")
    assert "\n" not in str(caught.value) and str(tmp_path / "benchmark.db") in str(caught.value)


def test_a_time_that_is_none_is_left_out(tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db") as store:
        store.add(session(1), ENVIRONMENT, [record("sort", 1.0, number=1)])
    change(tmp_path / "benchmark.db", "UPDATE record SET started_at = 'yesterday'")
    build_here(tmp_path / "benchmark.db", tmp_path / "out")
    assert data(tmp_path / "out", f"session/{IDENT}")["time"] is None


def spoil(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        manifest = codec.load(path.read_bytes())
        change(manifest)
        path.write_bytes(codec.dump(manifest))

    return write


TRAP = "../../../precious"
MANIFESTS: dict[str, Callable[[Path], None]] = {
    "case": spoil(lambda one: one["cases"].update({TRAP: {"split": 0}})),
    "case of one": spoil(lambda one: one["cases"].update({"0" * 16: 7})),
    "session": spoil(lambda one: one["sessions"].update({TRAP: {"summary": {}, "files": []}})),
    "place": spoil(lambda one: one["sessions"][IDENT].update(files=[f"../{TRAP}"])),
    "artifact": spoil(lambda one: one["sessions"][IDENT].update(artifacts=["../precious.js", "index.html"])),
    "absolute": spoil(lambda one: one["sessions"][IDENT].update(artifacts=["/etc/passwd"])),
    "side": spoil(lambda one: one["sides"].update({TRAP: ""})),
    "summary": spoil(lambda one: one["sessions"][IDENT].update(summary="attentions")),
    "mark": spoil(lambda one: one["sessions"][IDENT].pop("mark")),
    "split": spoil(lambda one: [case.update(split=1 << 70) for case in one["cases"].values()]),
    "list": lambda path: path.write_bytes(b"[]"),
    "deep": lambda path: path.write_bytes(b"[" * 100_000),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_removes_files_of_a_site_only(tmp_path: Path, name: str) -> None:
    make_session(tmp_path)
    out = tmp_path / "out"
    build_here(tmp_path / "benchmark.db", out)
    (tmp_path / "precious.js").write_text("mine")
    MANIFESTS[name](out / "data" / "manifest.json")
    with open_store(tmp_path / "benchmark.db") as store:
        store.add(session(3), ENVIRONMENT, [record("sort", 2.0, number=3)])
    build_here(tmp_path / "benchmark.db", out, largest_file_bytes=4000)  # so that the session is made anew
    assert (tmp_path / "precious.js").read_text() == "mine" and (out / "index.html").is_file()
    fresh = tmp_path / "fresh"
    build_here(tmp_path / "benchmark.db", fresh)
    names = sorted(str(path.relative_to(fresh)) for path in fresh.rglob("*") if path.is_file())
    assert set(names) <= {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}


def test_links_in_a_site_are_not_written_through(tmp_path: Path, home: Path) -> None:
    make_session(tmp_path)
    out = tmp_path / "out"
    build_here(tmp_path / "benchmark.db", out)
    (out / "index.html").unlink()
    (out / "index.html").symlink_to(home / "id_rsa")
    build_here(tmp_path / "benchmark.db", out)
    assert (home / "id_rsa").read_text() == KEY and not (out / "index.html").is_symlink()
    shutil.rmtree(out / "data" / "sessions")
    (out / "data" / "sessions").symlink_to(home)
    with pytest.raises(PacelineError, match="sessions is a link"):
        build_here(tmp_path / "benchmark.db", out)
    assert [path.name for path in home.iterdir()] == ["id_rsa"]


def test_secrets_in_files_of_a_run_are_masked(
    tmp_path: Path, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = make_session(place.path)
    results = entry / "benchmark_results"
    results.mkdir(exist_ok=True)
    (results / "config.json").write_text('{"token": "tok-4711-abcdefgh", "badge": "squirrel-1789"}')
    monkeypatch.setenv("SERVICE_TOKEN", "tok-4711-abcdefgh")
    monkeypatch.setenv("BADGE", "squirrel-1789")
    monkeypatch.setenv("OTHER", "json")
    out = tmp_path / "site"
    build_here(place.path / "benchmark.db", out)
    written = all_bytes(out)
    assert b"tok-4711-abcdefgh" not in written and b"squirrel-1789" not in written
    (copy,) = (out / "artifacts").rglob("*.txt")
    assert copy.read_text() == '{"token": "***", "badge": "***"}'
    with serving(place) as port:
        at = codec.load(ask(port, f"/data/files/{IDENT}/0.js")[2].split(b"','")[1][:-4])["files"][0]["at"]
        status, headers, body = ask(port, f"/{at}")
    assert (status, body) == (200, copy.read_bytes())
    assert headers["Content-Length"] == str(len(body))


def test_what_is_too_large_to_be_masked_is_named_only(
    tmp_path: Path, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = make_session(tmp_path)
    (entry / "artifacts" / "large.txt").write_text("x" * 2000)
    for module in (artifacts, __import__("paceline.dashboard.run_files", fromlist=["x"])):
        monkeypatch.setattr(module, "MOST_MASKED_BYTES", 1000)
    out = tmp_path / "out"
    build_here(tmp_path / "benchmark.db", out, largest_file_bytes=1 << 30)
    (listed,) = data(out, f"files/{IDENT}/0")["files"]
    assert listed == {"name": "artifacts/large.txt", "bytes": 2000, "too_large": True}
    page = watched.open(f"{out.as_uri()}/index.html#/session/{IDENT}?case=sort")
    page.locator("summary", has_text="file of this run").click()
    assert "too large to be copied" in page.locator(".files").inner_text()


def test_curves_of_any_content_are_read(tmp_path: Path) -> None:
    entry = make_session(tmp_path)
    for content in (
        b"\n\n\n\n",
        b"," * 5000,
        b"a,b\n1\n\n2,3\n4,5\n",
        b"\xff\xfe\n1\n2\n3\n",
        b"t_s\n" + b"9" * 200_000 + b"\n1\n",
    ):
        (entry / "resources.csv").write_bytes(content)
        began = time.monotonic()
        build_here(tmp_path / "benchmark.db", tmp_path / "out")
        shutil.rmtree(tmp_path / "out")
        assert time.monotonic() - began < 60
