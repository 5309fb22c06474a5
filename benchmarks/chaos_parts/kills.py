"""`kill -9` of the runner at random moments, and `--resume`, again and again: what finished is kept, once, for good."""

import json
import random
import shutil
import sqlite3
import subprocess
import sys
import urllib.request
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from chaos_parts.ground import Ended, Tally, adopted, end_all, environment, finish, start, still_there

KINDS = ("local", "jobs", "store")
CASES = 10
KILLS_A_SESSION = 10
BUCKET = "chaos"
# A child in a session of its own is what an orphan would be made of.
SCRIPT = """\
echo "$PACELINE_CASE $$ begin" >> "$CHAOS_LOG"
setsid sleep 5 > /dev/null 2>&1 &
child=$!
sleep 0.0$1
kill $child
mkdir -p "$PACELINE_RESULTS_PATH"
echo '{"value": 1}' > "$PACELINE_RESULTS_PATH/metrics.json"
echo "$PACELINE_CASE $$ end" >> "$CHAOS_LOG"
"""
# It ends with its standard input. S3 decides conditional writes one after another, moto in two steps: hence the lock.
STORE = """
import sys, threading
from moto.s3.responses import S3Response
from moto.server import ThreadedMotoServer
put_object, turn = S3Response.put_object, threading.Lock()
def put_in_turn(self):
    with turn:
        return put_object(self)
S3Response.put_object = put_in_turn
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


class Store:
    """A moto server in a process of its own, on loopback."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", STORE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}"
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/{BUCKET}", method="PUT", data=b"")).close()
        self.environ = {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "testing-id",
            "AWS_SECRET_ACCESS_KEY": "testing-secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def read(self, name: str) -> bytes:
        # Without a name the object would be private; nobody looks whether the signature is right.
        signed = {
            "Authorization": "AWS4-HMAC-SHA256 Credential=testing-id/20250101/us-east-1/s3/aws4_request"
        }
        request = urllib.request.Request(f"{self.url}/{BUCKET}/{quote(name)}", headers=signed)
        with urllib.request.urlopen(request) as answer:
            return bytes(answer.read())

    def names(self, below: str) -> list[str]:
        with urllib.request.urlopen(f"{self.url}/{BUCKET}?list-type=2&prefix={quote(below)}") as answer:
            tree = ElementTree.fromstring(answer.read())
        return [str(item.text) for item in tree.iter() if item.tag.endswith("}Key")]

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(30)


@dataclass
class Session:
    """One session that is killed many times, and what is known of it."""

    directory: Path
    kind: str
    chance: random.Random
    store: Store | None
    finished: dict[str, bytes] = field(default_factory=dict)
    runs_when_finished: dict[str, int] = field(default_factory=dict)
    kills: int = 0
    midway: int = 0

    def prepare(self) -> None:
        (self.directory / "work").mkdir(parents=True)
        results = f"s3://{BUCKET}/{self.directory.name}" if self.store else str(self.directory / "results")
        script = self.directory / "step.sh"
        script.write_text(SCRIPT)
        entries = "".join(
            f"  - {{name: c{number}, command: [sh, {script}, '{number % 5 + 3}'], resources: {{cpus: 0.1}}}}\n"
            for number in range(CASES)
        )
        (self.directory / "suite.yaml").write_text(f"results_dir: {results}\nentries:\n{entries}")
        self.env = environment(
            self.directory,
            CHAOS_LOG=str(self.directory / "log"),
            PACELINE_WORK_DIR=str(self.directory / "work"),
            **(self.store.environ if self.store else {}),
        )

    @property
    def mine(self) -> list[int]:
        return [self.store.process.pid] if self.store else []

    def local(self) -> Path | None:
        """The session's directory on this machine, if it has one."""
        above = self.directory / "work" if self.store else self.directory / "results"
        return next((path.parent for path in sorted(above.rglob("plan.json"))), None)

    def records(self) -> dict[str, bytes]:
        """All finished records, of this machine and of the store."""
        found = {}
        prefix = f"{self.directory.name}/s/"
        for name in self.store.names(prefix) if self.store else ():
            parts = name.removeprefix(prefix).split("/")
            if len(parts) == 2 and parts[1] == "record.json" and self.store:
                found[parts[0]] = self.store.read(name)
        session = self.local()
        for path in session.glob("*/record.json") if session else ():
            found[path.parent.name] = path.read_bytes()
        return {case: data for case, data in found.items() if json.loads(data)["status"] == "passed"}

    def runs(self) -> Counter[str]:
        """How often each case began, by its script's own word."""
        return Counter(line.split()[0] for line in self.lines() if line.endswith(" begin"))

    def lines(self) -> list[str]:
        log = self.directory / "log"
        return log.read_text().splitlines() if log.exists() else []

    def words(self) -> list[str]:
        # Its directory is there as soon as a run has made it, which may have come no further.
        here = [*self.directory.glob("results/s"), *self.directory.glob("work/*/s")]
        prefix = self.directory.name
        is_there = bool(here or (self.store and f"{prefix}/s/plan.json" in self.store.names(prefix)))
        url = f"s3://{BUCKET}/{self.directory.name}/s" if self.store else "s"
        how = ["--resume", url] if is_there else ["--session-name", "s"]
        jobs = ["--jobs", "4"] if self.kind == "jobs" else []
        history = ["--no-history"] if self.store else ["--db", str(self.directory / "history.db")]
        return ["run", str(self.directory / "suite.yaml"), *how, *jobs, *history]

    def go(self, kill_after_s: float, *, last: bool = False) -> Ended:
        log, before = self.directory / "output", len(self.lines())
        ended = finish(start(self.words(), self.directory, self.env, log), log, kill_after_s, deadline=last)
        if ended.code is None:
            self.kills += 1
            new = self.lines()[before:]
            self.midway += any(line.endswith(" begin") and f"{line[:-5]}end" not in new for line in new)
        return ended

    def forget(self) -> None:
        """What another machine has of the session: nothing."""
        shutil.rmtree(self.directory / "work")
        (self.directory / "work").mkdir()

    def problems(self) -> Iterator[tuple[str, str]]:
        """What has been lost or run again since the last look."""
        now, runs = self.records(), self.runs()
        for case, data in self.finished.items():
            if now.get(case) != data:
                yield "lost", f"the finished record of {case} is gone or another one"
            elif runs[case] != self.runs_when_finished[case]:
                yield "twice", f"{case} had finished and ran again"
        self.finished, self.runs_when_finished = now, dict(runs)

    def end_problems(self) -> Iterator[tuple[str, str]]:
        """What is wrong with a session that was run to its end."""
        session = self.local()
        report = json.loads((session / "report.json").read_text()) if session else {}
        listed = Counter(str(record["case"]["name"]) for record in report.get("records", ()))
        for number in range(CASES):
            if not listed[f"c{number}"]:
                yield "lost", f"c{number} is not in the report"
            elif listed[f"c{number}"] > 1:
                yield "twice", f"c{number} is in the report more than once"
        for entry in sorted(session.glob("c[0-9]*")) if session else ():
            kept = [entry / "record.json", *entry.glob("attempts/*/record.json")]
            statuses = [json.loads(path.read_text())["status"] for path in kept if path.exists()]
            if statuses.count("passed") != 1:
                yield "twice", f"{entry.name} has records with {', '.join(statuses)}"
        yield from () if self.store else self._history_problems()

    def _history_problems(self) -> Iterator[tuple[str, str]]:
        with closing(sqlite3.connect(self.directory / "history.db")) as database:
            query = 'SELECT c.name FROM record r JOIN "case" c ON c.id = r.case_id WHERE r.status = ?'
            counts = Counter(name for (name,) in database.execute(query, ("passed",)))
        for number in range(CASES):
            if counts[f"c{number}"] != 1:
                yield (
                    "twice" if counts[f"c{number}"] else "lost",
                    f"c{number} is in the history {counts[f'c{number}']} times",
                )


def one_session(tally: Tally, session: Session, kills: int, repeat: list[str]) -> None:
    """Kill a session until it was killed often enough; if it ends before, a new one would be another round."""
    session.prepare()
    left: dict[int, str] = {}
    longest_s = {"local": 1.0, "jobs": 0.6, "store": 2.0}[session.kind]
    for _ in range(kills):
        ended = session.go(session.chance.uniform(0.02, longest_s))
        tally.took(ended)
        if still_there(left, session.mine):
            tally.fail("orphans", f"processes {list(left)} outlived the next command", repeat)
            end_all(session.mine)
        left = adopted(session.mine)
        for column, what in session.problems():
            tally.fail(column, f"{what}, after kill {session.kills}", repeat)
        if "Traceback" in ended.output:
            tally.fail("tracebacks", ended.output[-2000:], repeat)
        if ended.code not in (None, 0, 1):  # The history may say that a busy machine became slower.
            tally.fail("stuck", f"exit code {ended.code}: {ended.output[-500:]}", repeat)
        if ended.code is not None:
            break
        if session.store and session.chance.random() < 0.5:
            session.forget()
            session.finished = {}
            session.problems()
    last = session.go(120, last=True)
    tally.took(last)
    if still_there(left | adopted(session.mine), session.mine):
        tally.fail("orphans", "processes outlived the whole session", repeat)
        end_all(session.mine)
    for column, what in [*session.problems(), *session.end_problems()]:
        tally.fail(column, what, repeat)
    if last.code not in (0, 1):
        tally.fail("stuck", f"the last --resume: exit code {last.code}: {last.output[-1000:]}", repeat)
    tally.rounds += session.kills


def kills(directory: Path, seed: int, rounds: int, kinds: tuple[str, ...], only: int | None) -> list[Tally]:
    """Each kind gets its share of the kills, ten to a session."""
    tallies = []
    for kind in kinds:
        tally = Tally("kills", {"local": "local", "jobs": "--jobs 4", "store": "object store"}[kind], "kills")
        tally.applies = ("lost", "twice", "orphans", "stuck", "tracebacks")
        tallies.append(tally)
        if kind == "store" and not (find_spec("moto") and find_spec("s3fs")):
            tally.not_run = "needs moto and s3fs"
            continue
        if kind == "store":
            import s3fs  # noqa: F401
        share, number, midway = -(-rounds // len(kinds)), only or 0, 0
        store = Store() if kind == "store" else None
        try:
            while tally.rounds < share and (only is None or number == only):
                count = min(KILLS_A_SESSION, share - tally.rounds) if only is None else KILLS_A_SESSION
                where = directory / f"{kind}-{number}"
                session = Session(where, kind, random.Random(f"{seed}/{kind}/{number}"), store)
                repeat = ["kills", "--seed", str(seed), "--kind", kind, "--only", str(number)]
                before = sum(tally.counts.values())
                one_session(tally, session, count, repeat)
                midway += session.midway
                tally.detail = f"{midway} while a case was running"
                if sum(tally.counts.values()) == before:
                    shutil.rmtree(where)
                number += 1
        finally:
            if store:
                store.close()
    return tallies
