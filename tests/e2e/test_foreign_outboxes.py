"""What somebody else's session says of its sinks is data: nothing of it is run, resolved or reached."""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from hook_server import HookServer, serving
from patience import wait_until
from workplace import Workplace

SUITE = "entries: [{name: a, script: count.py}]\n"
WAITS = "written by somebody else (or elsewhere): give its configuration with --config to send it"
GADGET = """
import pathlib
def run(options, context):
    pathlib.Path(options["file"]).write_text("ran")
"""
WAYS = {
    "send": ("send", "results/theirs"),
    "send all": ("send",),
    "run beside": ("run", "suite.yaml", "--session-name", "mine", "--no-history"),
    "resume": ("run", "suite.yaml", "--resume", "theirs", "--no-history"),
}


@pytest.fixture
def theirs(suite: Workplace, tmp_path: Path) -> Workplace:
    """A results directory with the session of somebody else, whose sink is to get a variable of whoever sends it."""
    suite.write("suite.yaml", SUITE)
    suite.write("gadget.py", GADGET)
    return suite


def make_session(suite: Workplace, url: str) -> Path:
    """A session by another user, for whom the receiver was away."""
    sink = f"{{type: webhook, name: hook, url: '{url}?k=${{AWS_SECRET_ACCESS_KEY}}', wait_s: 0, live: false}}"
    suite.write("theirs.yaml", f"sinks: [{sink}]\n{SUITE}")
    done = suite.run(
        *("run", "theirs.yaml", "--session-name", "theirs", "--no-history"),
        XDG_STATE_HOME=str(suite.path / "their-state"),
        AWS_SECRET_ACCESS_KEY="their-own-1234",
    )
    assert "3 of 3 messages wait" in done.stdout, done.stdout + done.stderr
    return suite.path / "results/theirs/.outbox/hook/spec.json"


def act(suite: Workplace, *words: str) -> subprocess.CompletedProcess[str]:
    return suite.run(*words, AWS_SECRET_ACCESS_KEY="victims-5678", PYTHONPATH=str(suite.path))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_gadget", [False, True])
def test_nothing_is_run_and_no_variable_leaves(theirs: Workplace, way: str, is_gadget: bool) -> None:
    with serving() as server:
        spec = make_session(theirs, server.url)
        if is_gadget:
            data = json.loads(spec.read_text())
            data["spec"] |= {"type": "gadget:run", "options": {"file": str(theirs.path / "gadget-ran")}}
            spec.write_text(json.dumps(data))
        done = act(theirs, *WAYS[way])
        assert "Traceback" not in done.stderr
        assert server.posted == [] and not (theirs.path / "gadget-ran").exists()
        assert (WAITS in done.stdout) is (way != "resume")
        assert done.returncode == (1 if way.startswith("send") else 0)
        # One's own session is none of its business.
        assert "victims-5678" not in done.stdout + done.stderr


def test_a_session_that_is_resumed_gets_the_sinks_of_its_new_configuration(theirs: Workplace) -> None:
    with serving() as server, serving() as own:
        spec = make_session(theirs, server.url)
        state = spec.parent / "state"
        state.mkdir()
        (state / "notebook.jsonl").write_text('{"key": "place", "api_url": "http://attacker/"}\n')
        sink = f"{{type: webhook, name: hook, url: '{own.url}'}}"
        theirs.write("suite.yaml", f"sinks: [{sink}]\n{SUITE}")
        done = act(theirs, *WAYS["resume"])
        assert done.returncode == 0, done.stdout + done.stderr
        assert server.posted == []
        assert [one.json["event"] for one in own.posted] == ["open", "record", "close", "close"]
        assert list(state.iterdir()) == []


def test_a_configuration_given_now_decides_where_it_goes(theirs: Workplace) -> None:
    with serving() as server, serving() as own:
        make_session(theirs, server.url)
        sink = f"{{type: webhook, name: hook, url: '{own.url}'}}"
        theirs.write("mine.yaml", f"sinks: [{sink}]\n{SUITE}")
        done = act(theirs, "send", "theirs", "--config", "mine.yaml")
        assert "session theirs: sink hook: 3 delivered, nothing waits" in done.stdout, done.stderr
        assert server.posted == [] and len(own.posted) == 3


def test_a_configuration_that_the_session_names_is_not_read(theirs: Workplace) -> None:
    """A sink whose secret is not kept has the files of its configuration read again: which ones is not data."""
    with serving() as server:
        spec = make_session(theirs, server.url)
        data = json.loads(spec.read_text())
        spec.write_text(json.dumps({**data, "lost": True}))
        assert WAITS in act(theirs, "send", "theirs").stdout
        assert server.posted == []


def kill_run(suite: Workplace, server: HookServer, **environ: str) -> None:
    """A run of one's own that is killed when its first case has ended, with nothing delivered."""
    sink = f"{{type: webhook, name: hook, url: '{server.url}?k=${{HOOK_TOKEN}}', live: false}}"
    entries = "entries: [{name: a, script: count.py}, {name: b, command: [sleep, '600']}]\n"
    suite.write("own.yaml", f"sinks: [{sink}]\n{entries}")
    run = subprocess.Popen(
        suite.command("run", "own.yaml", "--session-name", "own", "--no-history"),
        cwd=suite.path,
        env={**os.environ, "HOOK_TOKEN": "tok-1234567", **environ},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    journal = suite.path / "results/own/.outbox/journal.jsonl"
    wait_until(lambda: journal.exists() and '"record"' in journal.read_text(), by=run)
    run.send_signal(signal.SIGKILL)
    run.wait()


@pytest.mark.parametrize(
    "words", [("send", "own"), ("run", "suite.yaml", "--session-name", "n", "--no-history")]
)
def test_what_one_left_oneself_goes_on_without_any_option(suite: Workplace, words: tuple[str, ...]) -> None:
    suite.write("suite.yaml", SUITE)
    with serving() as server:
        kill_run(suite, server)
        done = suite.run(*words, HOOK_TOKEN="tok-7654321")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "session own: sink hook: 3 delivered, nothing waits" in done.stdout
        assert {one.path for one in server.posted} == {"/hook?k=tok-7654321"}


def test_a_session_of_ones_own_elsewhere_or_without_its_key_needs_its_configuration(suite: Workplace) -> None:
    with serving() as server:
        key = suite.path / "state/paceline/outbox.key"
        environ = {"XDG_STATE_HOME": str(suite.path / "state"), "HOOK_TOKEN": "tok-7654321"}
        kill_run(suite, server, XDG_STATE_HOME=environ["XDG_STATE_HOME"])
        results = suite.path / "results"
        shutil.copytree(results / "own", results / "copied", symlinks=True)
        assert WAITS in suite.run("send", "copied", **environ).stdout
        (results / "own").rename(results / "moved")
        assert WAITS in suite.run("send", "moved", **environ).stdout
        (results / "moved").rename(results / "own")
        key.rename(suite.path / "key")
        assert WAITS in suite.run("send", "own", **environ).stdout
        (suite.path / "key").replace(key)
        assert server.posted == []
        assert "3 delivered, nothing waits" in suite.run("send", "own", **environ).stdout
        given = suite.run("send", "copied", "--config", "own.yaml", **environ)
        assert "3 delivered, nothing waits" in given.stdout
        assert "nothing waits" in suite.run("send", "copied", **environ).stdout


def test_a_sink_named_by_an_import_path_that_fails_spoils_no_later_run(suite: Workplace) -> None:
    suite.write("suite.yaml", f"sinks: [{{name: 'gadget:Absent'}}]\n{SUITE}")
    suite.write("gadget.py", GADGET)
    for name in ("first", "second"):
        done = suite.run(
            "run", "suite.yaml", "--session-name", name, "--no-history", PYTHONPATH=str(suite.path)
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        assert "sink gadget:Absent: off: cannot import the sink 'gadget:Absent'" in done.stdout
    sent = suite.run("send", PYTHONPATH=str(suite.path))
    assert sent.returncode == 1 and "KeyError" not in sent.stderr
    assert sent.stdout.count("sink gadget:Absent: 0 delivered, 3 still waiting (off: cannot import") == 2


def test_a_journal_that_is_a_link_is_refused_in_a_line(theirs: Workplace) -> None:
    with serving() as server:
        outbox = make_session(theirs, server.url).parents[1]
        victim = theirs.write("victim", "")
        (outbox / "journal.jsonl").unlink()
        (outbox / "journal.jsonl").symlink_to(victim)
        done = act(theirs, "send", "theirs", "--config", "theirs.yaml")
    assert (done.returncode, victim.read_text()) == (2, "")
    assert "journal.jsonl' is refused: it is not a regular file" in done.stderr
    assert "Traceback" not in done.stderr
    assert act(theirs, "run", "suite.yaml", "--no-history").returncode == 0
    assert victim.read_text() == ""


def test_an_outbox_is_its_owners_alone(suite: Workplace) -> None:
    suite.write("suite.yaml", f"sinks: [{{type: files, name: files, directory: copies}}]\n{SUITE}")
    before = os.umask(0o022)
    try:
        done = subprocess.run(
            suite.command("run", "suite.yaml", "--session-name", "s", "--no-history"),
            cwd=suite.path,
            capture_output=True,
            check=True,
        )
    finally:
        os.umask(before)
    outbox = suite.path / "results/s/.outbox"
    assert done.returncode == 0
    modes = {
        str(path.relative_to(outbox)): path.stat().st_mode & 0o777 for path in (outbox, *outbox.rglob("*"))
    }
    assert {"files/spec.json", "files/ledger.jsonl", "journal.jsonl", "session.json"} <= set(modes)
    wrong = {name for name, mode in modes.items() if mode & 0o077}
    assert wrong == set()
    # What a sink makes elsewhere, and the mark that others look at, are as the umask has it.
    assert (suite.path / "copies/s.jsonl").stat().st_mode & 0o777 == 0o644
