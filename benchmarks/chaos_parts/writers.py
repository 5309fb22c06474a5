"""Eight writers on one database; two are killed midway and start over, the server restarts: all is there, once."""

import os
import pwd
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from chaos_parts.ground import Tally, environment, finish, start

WRITERS = 8
KINDS = ("sqlite", "postgresql")
A_TIME = 10
SETTINGS = ("listen_addresses=", "max_connections=40", "shared_buffers=16MB")


class Server:
    """A PostgreSQL of our own, on a socket in a directory of its own."""

    def __init__(self, programs: Path, directory: Path) -> None:
        self.programs, self.directory = programs, directory
        directory.mkdir(mode=0o755)
        names = {entry.pw_name: entry for entry in pwd.getpwall()}
        self.user: dict[str, Any] = {}
        if os.getuid() == 0:  # The server refuses to be root's.
            other = names.get("postgres") or names["nobody"]
            self.user = {"user": other.pw_uid, "group": other.pw_gid, "extra_groups": []}
            os.chown(directory, other.pw_uid, other.pw_gid)
        self._call("initdb", "-U", "postgres", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C")
        self.url = f"postgresql://postgres@/postgres?host={directory}"

    def _call(self, program: str, *words: str) -> None:
        command = [str(self.programs / program), "-D", str(self.directory / "data"), *words]
        done = subprocess.run(
            command,
            cwd=self.directory,
            check=False,
            stdout=(self.directory / "output").open("wb"),
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            **self.user,
        )
        if done.returncode:
            raise SystemExit(f"{program}: {(self.directory / 'output').read_text()[-1000:]}")

    def start(self) -> None:
        options = " ".join(
            f"-c {setting}" for setting in (*SETTINGS, f"unix_socket_directories={self.directory}")
        )
        self._call("pg_ctl", "start", "-w", "-o", options, "-l", str(self.directory / "data/server.log"))

    def stop(self, mode: str = "fast") -> None:
        self._call("pg_ctl", "stop", "-w", "-m", mode)


def programs() -> Path | None:
    """Where the server's programs are; they are seldom on the path."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which("pg_ctl")
    return next(
        (
            each
            for each in [*versions, *([Path(found).parent] if found else [])]
            if (each / "initdb").exists()
        ),
        None,
    )


def write(url: str, number: int, count: int, progress: Path) -> None:
    """Add records a few at a time; one that is refused is tried again, as the next command would."""
    from paceline.errors import PacelineError
    from paceline.history import SessionInfo, open_store
    from paceline.model import Case, Measurement, Record, Status

    session = SessionInfo(
        id=f"{7:032x}", name="night", started_at="2026-01-01T00:00:00.000Z", revision="0" * 40
    )
    environ = {"id": "env-1", "class_id": "class-1", "hostname": "box", "platform": "Linux", "packages": []}
    records = [
        Record(
            session="night",
            case=Case(name=f"w{number}[n={index}]", entry=f"w{number}", key=f"w{number}[n={index}]"),
            attempt=1,
            status=Status.PASSED,
            started_at=session.started_at,
            exec_time_s=0.5,
            metrics={"wall_s": Measurement(value=1.0, unit="s", direction="lower", samples=(1.0,))},
            environment="env-1",
            revision=session.revision,
        )
        for index in range(count)
    ]
    for first in range(0, count, A_TIME):
        for attempt in range(100):
            try:
                with open_store(url) as store:
                    store.add(session, environ, records[first : first + A_TIME])
                break
            except PacelineError as error:
                print(f"again: {error}", flush=True)
                time.sleep(0.1 * min(attempt + 1, 10))
        else:
            raise SystemExit(3)
        progress.write_text(str(first))


def one_database(
    tally: Tally, directory: Path, url: str, count: int, server: Server | None, seed: int
) -> None:
    chance = random.Random(seed)
    env = environment(directory)

    def begin(number: int) -> int:
        return start(
            lambda: write(url, number, count, directory / f"at{number}"),
            directory,
            env,
            directory / f"log{number}",
        )

    def midway(number: int) -> bool:
        path = directory / f"at{number}"
        return path.exists() and int(path.read_text() or 0) >= count // 3

    started = time.monotonic()
    running = {number: begin(number) for number in range(WRITERS)}
    while not midway(0) and time.monotonic() < started + 300:
        time.sleep(0.02)
    if server:
        server.stop("immediate")
        time.sleep(0.3)
        server.start()
    for number in chance.sample(range(1, WRITERS), 2):
        os.kill(running[number], signal.SIGKILL)
        os.waitpid(running[number], 0)
        running[number] = begin(number)
    again = 0
    repeat = ["writers", "--kind", tally.what, "--rounds", str(count)]
    for number, pid in running.items():
        ended = finish(pid, directory / f"log{number}", 600, deadline=True)
        again += ended.output.count("again: ")
        tally.peak_mib = max(tally.peak_mib, ended.peak_mib)
        if ended.timed_out or ended.code != 0 or "Traceback" in ended.output:
            tally.fail(
                "tracebacks", f"writer {number}, exit code {ended.code}: {ended.output[-1500:]}", repeat
            )
    tally.longest_s = time.monotonic() - started
    check(tally, url, count, repeat)
    what = "the server restarted and two writers killed midway" if server else "two writers killed midway"
    tally.detail = f"{what}, {again} calls that were refused and made again"


def check(tally: Tally, url: str, count: int, repeat: list[str]) -> None:
    from paceline.history import open_store

    with open_store(url) as store:
        names = [
            str(row[0])
            for row in store.query('SELECT c.name FROM record r JOIN "case" c ON c.id = r.case_id')[1]
        ]
    wanted = {f"w{number}[n={index}]" for number in range(WRITERS) for index in range(count)}
    tally.rounds = len(wanted)
    if wanted - {*names}:
        tally.fail("lost", f"{len(wanted - {*names})} of {len(wanted)} records", repeat)
    if len(names) != len({*names}):
        tally.fail("twice", f"{len(names) - len({*names})} records", repeat)


def writers(directory: Path, rounds: int, kind: str | None, seed: int) -> list[Tally]:
    tallies = []
    for each in KINDS if kind is None else (kind,):
        tally = Tally("writers", each, "records")
        tally.applies = ("lost", "twice", "tracebacks")
        tallies.append(tally)
        where = directory / each
        where.mkdir()
        if each == "sqlite":
            one_database(tally, where, str(where / "history.db"), rounds, None, seed)
            continue
        found = programs()
        if found is None:
            tally.not_run = "initdb and pg_ctl are not found"
            continue
        # Short, since a socket's path is limited, and where another user may go.
        short = Path(f"/tmp/paceline-chaos-{os.getpid()}")
        server = Server(found, short)
        server.start()
        try:
            one_database(tally, where, server.url, rounds, server, seed)
        finally:
            server.stop("immediate")
            shutil.rmtree(short, ignore_errors=True)
    return tallies
