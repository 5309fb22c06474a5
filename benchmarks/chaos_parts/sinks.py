"""A webhook that is down, slow, hanging or lying for a whole session: the records are there, and the session ends."""

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

from chaos_parts.ground import Tally, end_all, environment, run

ALL_FOUR = "hang, refuse, lie, crash"
MANNERS = {"hangs": "hanging", "refuses": "down", "lies": "garbage"}
KINDS = ("down", "slow", "hanging", "closing", "garbage", ALL_FOUR)
WAIT_S = 2
HELD_S = 10  # A sink that hangs would hold a session for 30 s; half a second is for a quiet machine.
# The manner is what the last line on standard input says; it ends with it. What was taken for good is printed.
SERVER = """
import json, socket, sys, threading, time
port, manner, taken = int(sys.argv[1]), "", []

def answer(line):
    with line, line.makefile("rb") as file:
        length, how = 0, manner
        for header in iter(file.readline, b"\\r\\n"):
            if not header:
                return
            if header.lower().startswith(b"content-length:"):
                length = int(header.split(b":")[1])
        body = file.read(length)
        if how == "slow":
            time.sleep(1)
        if how == "hanging":
            time.sleep(600)
        if how == "garbage":
            line.sendall(bytes(range(256)) * 300)
        elif how == "closing":
            line.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 1000\\r\\n\\r\\n{")
        else:
            taken.append(json.loads(body)["key"])
            line.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n")

def serve(listening):
    while True:
        try:
            line, _ = listening.accept()
        except OSError:
            return
        threading.Thread(target=answer, args=(line,), daemon=True).start()

listening = None
for text in sys.stdin:
    manner = text.strip()
    if manner == "taken":
        print(json.dumps(taken), flush=True)
        continue
    if listening:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        listening = None
    if manner != "down":
        listening = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=serve, args=(listening,), daemon=True).start()
    taken.clear()
    print("ready", flush=True)
"""

CRASHING = """
import os, pathlib

class Crashes:
    def __init__(self, options, context):
        self.context = context
        if os.path.exists("ill"):
            os.abort()
    def note(self, _):
        with open("crashes-took", "a") as file:
            file.write(self.context.key + "\\n")
    open = record = close = note
"""


class Service:
    """The server of a webhook, in a process of its own."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(self.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self, word: str) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def taken(self) -> list[str]:
        found: list[str] = json.loads(self.tell("taken"))
        return found

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def session_s(tally: Tally, where: Path, cases: int, name: str, *options: str) -> float:
    """The time of a whole session, all of whose records must be there."""
    started = time.perf_counter()
    words = ["run", "suite.yaml", "--session-name", name, "--no-history", *options]
    ended = run(words, where, {**environment(where), "PYTHONPATH": str(where)})
    taken_s = time.perf_counter() - started
    tally.took(ended)
    repeat = ["sinks", "--kind", tally.what, "--rounds", str(cases)]
    records = [json.loads(path.read_text()) for path in (where / "results" / name).glob("*/record.json")]
    if sum(record["status"] == "passed" for record in records) != cases:
        tally.fail("lost", f"{len(records)} records of {cases}: {ended.output[-1000:]}", repeat)
    if ended.timed_out:
        tally.fail("hangs", ended.output[-500:], repeat)
    if ended.code != 0 or "Traceback" in ended.output:
        tally.fail("tracebacks", f"exit code {ended.code}: {ended.output[-1500:]}", repeat)
    return taken_s


def one_kind(tally: Tally, where: Path, service: Service, cases: int) -> None:
    where.mkdir()
    hook = f"{{name: hook, type: webhook, url: 'http://127.0.0.1:{service.port}/', timeout_s: 4, wait_s: {WAIT_S}}}"
    entries = "".join(f"  - {{name: c{number}, command: [sh, -c, 'sleep 0.1']}}\n" for number in range(cases))
    (where / "suite.yaml").write_text(f"results_dir: results\nsinks:\n  - {hook}\nentries:\n{entries}")
    service.tell(tally.what)
    without_s = session_s(tally, where, cases, "without", "--sink", "none")
    with_s = session_s(tally, where, cases, "with")
    before = service.taken()
    end_all([service.process.pid])
    service.tell("well")
    sent = run(["send", "with"], where, environment(where))
    after = service.taken()
    tally.rounds += cases
    if "Traceback" in sent.output or sent.code not in (0, 1):
        tally.fail("tracebacks", f"send: {sent.output[-1500:]}", ["sinks", "--kind", tally.what])
    twice = len(before) + len(after) - len({*before, *after})
    tally.detail = (
        f"{with_s:.1f} s beside {without_s:.1f} s without ({with_s / without_s:.2f} times); "
        f"took {len(before)} of {cases + 2} messages, then `send` {len(after)}, {twice} of them again"
    )
    # What says 200 and then breaks off has taken the message, by its own word.
    if tally.what != "closing" and len({*before, *after}) < cases + 2:
        tally.fail("lost", f"{cases + 2} messages, {tally.detail}", ["sinks", "--kind", tally.what])


def all_four(tally: Tally, where: Path, services: dict[str, Service], cases: int) -> None:
    """One session with a sink of each kind that fails, all with the usual time to wait; then `send`, all being well."""
    where.mkdir()
    (where / "crashing.py").write_text(CRASHING)
    (where / "ill").touch()
    hooks = "".join(
        f"  - {{name: {name}, type: webhook, url: 'http://127.0.0.1:{service.port}/'}}\n"
        for name, service in services.items()
    )
    entries = "".join(f"  - {{name: c{number}, command: [sh, -c, 'sleep 0.1']}}\n" for number in range(cases))
    head = f"results_dir: results\nsinks:\n{hooks}  - {{name: crashes, type: 'crashing:Crashes'}}\n"
    (where / "suite.yaml").write_text(f"{head}entries:\n{entries}")
    for name, service in services.items():
        service.tell(MANNERS[name])
    without_s = session_s(tally, where, cases, "without", "--sink", "none")
    with_s = session_s(tally, where, cases, "with")
    (where / "ill").unlink()
    for service in services.values():
        service.tell("well")
    sent = run(["send", "with"], where, {**environment(where), "PYTHONPATH": str(where)})
    taken = {name: service.taken() for name, service in services.items()}
    taken["crashes"] = (where / "crashes-took").read_text().split()
    tally.rounds += cases
    tally.detail = (
        f"{with_s:.1f} s beside {without_s:.1f} s without; `send` then delivered "
        + ", ".join(f"{name} {len(keys)}" for name, keys in taken.items())
        + f" of {cases + 2}"
    )
    repeat = ["sinks", "--kind", ALL_FOUR, "--rounds", str(cases)]
    if sent.code != 0 or any(len({*keys}) < cases + 2 for keys in taken.values()):
        tally.fail("lost", f"{tally.detail}; {sent.output[-1000:]}", repeat)
    if with_s - without_s > HELD_S:
        tally.fail("hangs", f"the sinks held the session: {tally.detail}", repeat)


def sinks(directory: Path, rounds: int, kind: str | None) -> list[Tally]:
    """A session for each manner, beside one without sinks."""
    tallies = []
    for each in KINDS if kind is None else (kind,):
        tally = Tally("sinks", each, "records")
        tally.applies = ("lost", "tracebacks", "hangs")
        tallies.append(tally)
        services = {name: Service() for name in (MANNERS if each == ALL_FOUR else ("hook",))}
        try:
            if each == ALL_FOUR:
                all_four(tally, directory / "all-four", services, rounds)
            else:
                one_kind(tally, directory / each, services["hook"], rounds)
        finally:
            for service in services.values():
                service.close()
    return tallies
