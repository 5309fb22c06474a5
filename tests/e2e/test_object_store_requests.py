"""What sessions in an object store ask of it, counted by the server: each request costs time and money."""

import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from object_store import ObjectStore as Server
from object_store import s3, s3_server
from paceline.cli import cli
from patience import wait_until
from record.store_machines import FAILED, PASSED, Machine, make_case, run_case
from workplace import Workplace

__all__ = ["s3", "s3_server"]

RECORDS = 30
NAMES = [f"case-{number}" for number in range(RECORDS)]
URL = "s3://bench/nightly"

Ask = Callable[..., tuple[list[str], str]]


@pytest.fixture
def machine(tmp_path: Path, s3: str) -> Machine:
    return Machine(tmp_path / "machine", URL)


@pytest.fixture
def ask(
    s3_server: Server,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Ask:
    """Runs a command; the requests that it made, and what it printed."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[list[str], str]:
        capsys.readouterr()
        s3_server.requests()
        cli.main([*words], prog_name="paceline", standalone_mode=False)
        return s3_server.requests(), capsys.readouterr().out

    return run


@pytest.fixture
def run_session(
    place: Workplace, s3_server: Server, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, list[str]], list[str]]:
    """Runs a session of these cases; the requests that it made but for heartbeats, of which there is one in 20 s."""
    monkeypatch.setenv("PACELINE_WORK_DIR", str(place.path / "work"))

    def run(session: str, names: list[str]) -> list[str]:
        entries = "".join(f"  - {{name: {name}, command: [echo, hello]}}\n" for name in names)
        place.write("suite.yaml", f"results_dir: {URL}\nentries:\n{entries}")
        s3_server.requests()
        done = place.run("run", "--no-history", "suite.yaml", "--session-name", session)
        assert done.returncode == 0, done.stdout + done.stderr
        return [
            request for request in s3_server.requests() if not re.search(r"/\.(lock|sessions)\b", request)
        ]

    return run


def test_a_record_takes_two_requests(run_session: Callable[[str, list[str]], list[str]]) -> None:
    asked = run_session("s", NAMES)
    of_cases = [request for request in asked if "/s/case-" in request]
    expected = {
        f"PUT /bench/nightly/s/{name}/{file}" for name in NAMES for file in ("files.tar.gz", "record.json")
    }
    assert set(of_cases) == expected and len(of_cases) == 2 * RECORDS
    for name in NAMES:
        archive, record = (request for request in of_cases if f"/{name}/" in request)
        assert archive.endswith("files.tar.gz") and record.endswith("record.json")
    # The rest is once at the start or at the end.
    others = Counter(request for request in asked if request not in expected)
    assert others.total() <= 12 and max(others.values()) == 1


def test_a_longer_session_takes_two_more_for_each_record(
    run_session: Callable[[str, list[str]], list[str]],
) -> None:
    few, many = (len(run_session(f"s{count}", NAMES[:count])) for count in (5, 25))
    assert (many - few) / 20 <= 2


@pytest.mark.parametrize(("count", "shown", "older"), [(4, 4, 0), (25, 20, 5)])
def test_a_session_listed_takes_one_request(
    machine: Machine, ask: Ask, count: int, shown: int, older: int
) -> None:
    for number in range(count):
        machine.run(machine.plan("a", "b", session=f"s{number}"), {"a": PASSED, "b": FAILED})
    asked, printed = ask("list", "--results-dir", URL)
    assert len(asked) <= 3 + shown
    lines = printed.splitlines()
    assert len([line for line in lines if "1 passed, 1 failed" in line]) == shown
    assert (lines[-1] == f"{older} older: --all lists them, too") is (older > 0)
    asked, printed = ask("list", "--results-dir", URL, "--all")
    assert len(asked) <= 3 + count and len(printed.splitlines()) == 1 + count


def test_a_session_that_ended_is_shown_with_few_requests(machine: Machine, ask: Ask) -> None:
    machine.run(machine.plan(*NAMES, session="s"), dict.fromkeys(NAMES, PASSED))
    for words in ([f"{URL}/s"], ["s", "--results-dir", URL], ["--results-dir", URL], [f"{URL}/s", "--json"]):
        asked, printed = ask("show", *words)
        assert len(asked) <= 5 and all(name in printed for name in NAMES)
    asked, printed = ask("show", f"{URL}/s", NAMES[7])
    assert len(asked) <= 6 and f"{NAMES[7]} attempt 1 by machine" in printed


def test_a_session_that_was_cut_short_takes_one_for_each_record(machine: Machine, ask: Ask) -> None:
    with machine.session(machine.plan(*NAMES, "never", session="s")) as (kept, directory):
        for name in NAMES:
            run_case(kept, directory, make_case(name), PASSED, "machine")
        wait_until(lambda: not kept._queue.unfinished_tasks)
    asked, printed = ask("show", f"{URL}/s")
    assert f"{RECORDS} passed, 1 not run of {RECORDS + 1} cases" in printed
    listings = [request for request in asked if "list-type" in request]
    records = [request for request in asked if request.endswith("/record.json")]
    assert (len(listings), len(records)) == (1, RECORDS) and len(asked) <= 1 + RECORDS + 4


def test_an_archive_goes_in_parts_if_it_is_large(machine: Machine, s3_server: Server) -> None:
    case = make_case("a")
    with machine.session(machine.plan(case)) as (kept, directory):
        (directory.prepare(case) / "noise").write_bytes(os.urandom(20 << 20))
        s3_server.requests()
        run_case(kept, directory, case, PASSED, "machine")
        wait_until(lambda: not kept._queue.unfinished_tasks)
        asked = [request for request in s3_server.requests() if "/a/" in request]
    assert sum("partNumber" in request for request in asked) == 3 and asked[-1].endswith("/a/record.json")
