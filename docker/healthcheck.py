"""Whether the container does its work: exit code 0 if so, 1 with the reason if not.

A dashboard is well if it answers. A run is well if its process is neither dead nor stopped; how long a benchmark may
take is for its `timeout_s` to say, not for the engine. A container that runs something else is none of our business.
"""

import sys
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import NamedTuple

_TIMEOUT_S = 8.0
_STATES = {"Z": "is dead", "X": "is dead", "T": "is stopped", "t": "is stopped"}
_WELL = 0
_ILL = 1


class Process(NamedTuple):
    """A process of the container."""

    pid: int
    state: str
    parent: int
    argv: tuple[str, ...]


def main() -> int:
    """Look at the container's first process, or at that of a given number, and at its children."""
    first = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    found = find_paceline(first, list(read_processes(Path("/proc"))))
    fault = find_fault(found) if found else None
    print(fault or (f"paceline runs as process {found.pid}" if found else "nothing of paceline runs here"))
    return _ILL if fault else _WELL


def read_processes(proc: Path) -> Iterator[Process]:
    for directory in proc.glob("[0-9]*"):
        try:
            stat = (directory / "stat").read_text(errors="replace")
            argv = (directory / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
        except OSError:
            continue  # it ended meanwhile
        # The name stands in parentheses and may hold any character, parentheses too.
        state, parent = stat.rpartition(")")[2].split()[:2]
        yield Process(int(directory.name), state, int(parent), tuple(argv))


def find_paceline(first: int, processes: list[Process]) -> Process | None:
    """The process itself, or the child of an init that was put before it."""
    family = [one for one in processes if first in (one.pid, one.parent)]
    family.sort(key=lambda one: one.pid != first)
    return next((one for one in family if is_paceline(one.argv)), None)


def is_paceline(argv: tuple[str, ...]) -> bool:
    """`paceline …` as a script is `python …/paceline …`; `python -m paceline` is it too."""
    return any(Path(word).name == "paceline" for word in argv[:2]) or argv[1:3] == ("-m", "paceline")


def find_fault(process: Process) -> str | None:
    if process.state in _STATES:
        return f"process {process.pid} {_STATES[process.state]}"
    if "dashboard" in process.argv and "serve" in process.argv:
        return find_fault_of_server(port_of(process.argv))
    return None


def port_of(argv: tuple[str, ...]) -> int:
    for word, following in zip(argv, (*argv[1:], ""), strict=True):
        if word == "--port":
            return int(following)
        if word.startswith("--port="):
            return int(word.partition("=")[2])
    return 8000


def find_fault_of_server(port: int) -> str | None:
    connection = HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", "/", headers={"Host": f"localhost:{port}"})
        status = connection.getresponse().status
    except (OSError, HTTPException) as error:
        return f"the dashboard does not answer on port {port}: {error}"
    finally:
        connection.close()
    return None if status == 200 else f"the dashboard answers with status {status}"


if __name__ == "__main__":
    sys.exit(main())
