"""Ports that no two clusters get."""

import os
import socket
import subprocess
import sys
from contextlib import closing

import pytest

from paceline.run.ray import ports as ray_ports
from paceline.run.ray.ports import LOOPBACK, reserve


def test_reserved_ports_differ_and_are_free() -> None:
    one, two = reserve(["a", "b", "c"]), reserve(["a", "b", "c"])
    with closing(one_listener(one["a"])):
        numbers = [ports[purpose] for ports in (one, two) for purpose in "abc"]
        assert len(set(numbers)) == 6
        assert one.taken() == [one["a"]] and two.taken() == []
    assert one.taken() == []
    one.release()
    two.release()


def one_listener(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((LOOPBACK, port))
    listener.listen()
    return listener


def few_candidates(monkeypatch: pytest.MonkeyPatch, *numbers: int) -> None:
    monkeypatch.setattr(ray_ports, "_candidates", lambda: iter(numbers))


def test_a_port_with_a_listener_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    ports = reserve(["a", "b"])
    free, busy = ports["a"], ports["b"]
    ports.release()
    few_candidates(monkeypatch, busy, free)
    with closing(one_listener(busy)):
        chosen = reserve(["x"])
        assert chosen["x"] == free
        chosen.release()


@pytest.mark.skipif(sys.platform != "linux", reason="abstract sockets are Linux's")
def test_a_port_is_kept_from_other_processes_until_its_holder_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import sys; from paceline.run.ray.ports import reserve; ports = reserve(['a'])\n"
        "print(ports['a'], flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        number = int(other.stdout.readline())
        few_candidates(monkeypatch, number)
        with pytest.raises(OSError, match="free ports"):
            reserve(["a"])
        other.kill()
    few_candidates(monkeypatch, number)
    ports = reserve(["a"])
    assert ports["a"] == number
    ports.release()


def test_a_failed_reservation_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    ports = reserve(["a"])
    number = ports["a"]
    ports.release()
    for _ in range(2):
        few_candidates(monkeypatch, number)
        with pytest.raises(OSError, match="fewer than 2 free ports"):
            reserve(["a", "b"])


def test_the_ranges_of_the_kernel_and_of_ray_are_left_alone() -> None:
    first = ray_ports._first_ephemeral()
    assert first > ray_ports.LOWEST_PORT + ray_ports.SMALLEST_CHOICE - 1
    found = set(ray_ports._candidates())
    assert all(ray_ports.LOWEST_PORT <= number < first for number in found)
    assert found.isdisjoint(range(23000, 24000))


def test_a_listener_of_ones_own_is_told_from_others() -> None:
    ports = reserve(("mine", "theirs", "nobodys"))
    code = "import socket, sys; s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); print(flush=True); input()"
    with one_listener(ports["mine"]):
        argv = [sys.executable, "-c", code, str(ports["theirs"])]
        other = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert other.stdout is not None
        other.stdout.readline()
        assert ports.held_by_others([os.getpid()]) == [ports["theirs"]]
        assert ports.held_by_others([os.getpid(), other.pid]) == []
        other.communicate(b"\n")
    assert ports.held_by_others([]) == []
    ports.release()
