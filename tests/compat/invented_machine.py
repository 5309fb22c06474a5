"""Lets a Python describe a machine that nobody has: fixtures made by it tell nothing of the one they were made on.

`neutral_python.py` puts a copy of this file, as `sitecustomize.py`, into the environment that writes the fixtures. So
what Paceline asks the system for is answered here, its hashes belong to what stands in its files, and no file has
to be edited afterwards. The clock is set by the file `clock` at the top of the environment, if there is one.
"""

import datetime
import os
import pathlib
import platform
import shutil
import socket
import sys
from collections import namedtuple

HOST = "bench-host"
GIB = 1 << 30
CPUS = 4
FILES = {
    "/proc/cpuinfo": "processor\t: 0\nmodel name\t: Example CPU @ 2.00GHz\n",
    "/proc/meminfo": "MemTotal: 16777216 kB\nMemAvailable: 12582912 kB\nSwapTotal: 0 kB\n",
    "/proc/self/cgroup": "0::/\n",
    "/proc/1/cgroup": "0::/\n",
    "/proc/sys/kernel/random/boot_id": "00000000-0000-4000-8000-000000000000\n",
}
MISSING = ("/.dockerenv", "/run/.containerenv", "/sys/devices/system/cpu/", "/sys/fs/cgroup/", "/MOUNT")

_read_text, _readlink = pathlib.Path.read_text, pathlib.Path.readlink
_exists, _path_exists = os.path.exists, pathlib.Path.exists
_disk = namedtuple("usage", "total used free")(100 * GIB, 50 * GIB, 50 * GIB)


def read_text(self, *args, **options):
    if str(self) in FILES:
        return FILES[str(self)]
    if str(self).startswith(MISSING):
        raise FileNotFoundError(str(self))
    return _read_text(self, *args, **options)


def readlink(self):
    return pathlib.Path("pid:[4026531836]") if str(self) == "/proc/self/ns/pid" else _readlink(self)


def exists(path):
    return not str(path).startswith(MISSING) and _exists(path)


pathlib.Path.read_text, pathlib.Path.readlink = read_text, readlink
pathlib.Path.exists = lambda self: not str(self).startswith(MISSING) and _path_exists(self)
os.path.exists = exists
os.uname = lambda: os.uname_result(("Linux", HOST, "6.1.0-1-example", "#1 SMP", "x86_64"))
os.cpu_count = lambda: CPUS
os.sched_getaffinity = lambda pid: set(range(CPUS))
os.getloadavg = lambda: (0.1, 0.2, 0.3)
socket.gethostname = lambda: HOST
platform.freedesktop_os_release = lambda: {"ID": "debian", "VERSION_ID": "12"}
shutil.disk_usage = lambda path: _disk


def _set_clock(text):
    real = datetime.datetime
    offset = real.fromisoformat(text) - real.now(datetime.UTC)

    class Then(real):
        @classmethod
        def now(cls, tz=None):
            moved = real.now(tz) + offset
            return cls.combine(moved.date(), moved.timetz())

    datetime.datetime = Then


_clock = pathlib.Path(sys.prefix, "clock")
if _path_exists(_clock):
    _set_clock(_read_text(_clock).strip())
