"""A base image for tests, made of this machine's own programs: no registry is asked, and no network used.

It has what docker/Dockerfile and the demo need of a slim Python image: the Python that runs the tests, a shell, a few
programs, their libraries and the files in /etc that these read. It is not that image; it shows that the Dockerfile's
steps work.
"""

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

PROGRAMS = (
    *(
        "sh",
        "bash",
        "awk",
        "sort",
        "sed",
        "grep",
        "tr",
        "cat",
        "cp",
        "mv",
        "rm",
        "ls",
        "ln",
        "mkdir",
        "mktemp",
        "chmod",
    ),
    *(
        "chown",
        "date",
        "env",
        "echo",
        "head",
        "tail",
        "wc",
        "seq",
        "shuf",
        "id",
        "dirname",
        "basename",
        "sleep",
        "tee",
    ),
    *("uname", "useradd", "groupadd", "true", "stat", "cut", "expr"),
)
"""Those of them that are missing here are left out: another program of the image then says so."""
COMMON_LIBRARIES = (
    *("libstdc++.so.6", "libgcc_s.so.1"),
    *("librt.so.1", "libpthread.so.0", "libdl.so.2", "libutil.so.1"),
)
"""Every distribution has them, and packages with compiled parts count on it."""
LEFT_OUT = (
    "site-packages",
    "test",
    "tests",
    "idlelib",
    "tkinter",
    "turtledemo",
    "config-*",
    "__pycache__",
    "_tkinter*",
)


def make_root(root: Path) -> None:
    """The files of a small system at `root`, whose `/bin`, `/lib` and so on are links into `/usr`, as Debian's are."""
    for directory in (
        "usr/bin",
        "usr/sbin",
        "usr/lib",
        "usr/lib64",
        "etc",
        "tmp",
        "root",
        "home",
        "var/tmp",
        "proc",
    ):
        (root / directory).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    (root / "tmp").chmod(0o1777)
    for name, text in _ETC.items():
        (root / "etc" / name).write_text(text)
    found = [
        Path(path) for name in PROGRAMS if (path := shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin"))
    ]
    for program in found:
        _copy(program.resolve(), root / "usr/bin" / program.name)
    extensions = _copy_python(root / "usr/local")
    for library in (one for name in COMMON_LIBRARIES for one in Path("/usr/lib").glob(f"*/{name}")):
        _copy(library.resolve(), root / "usr/lib" / library.name)
    _copy_libraries([*(program.resolve() for program in found), *extensions], root)


_ETC = {
    "passwd": "root:x:0:0:root:/root:/bin/bash\n",
    "group": "root:x:0:\n",
    "shadow": "root:*:19000:0:99999:7:::\n",
    "gshadow": "root:*::\n",
    "login.defs": "UID_MIN 1000\nUID_MAX 60000\nGID_MIN 1000\nGID_MAX 60000\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n",
}


def _copy_python(prefix: Path) -> list[Path]:
    """The interpreter and its standard library; the files whose libraries are needed too."""
    library = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(library, prefix / "lib" / library.name, ignore=shutil.ignore_patterns(*LEFT_OUT))
    (prefix / "lib" / library.name / "site-packages").mkdir()
    executable = Path(sys.base_prefix, "bin", library.name)
    _copy(executable.resolve(), prefix / "bin" / library.name)
    for name in ("python3", "python"):
        (prefix / "bin" / name).symlink_to(library.name)
    return [executable.resolve(), *prefix.glob("lib/*/lib-dynload/*.so")]


def _copy_libraries(files: Iterable[Path], root: Path) -> None:
    """Shared libraries, found as the loader here finds them; all go where the loader there looks without being told."""
    listed = subprocess.run(["ldd", *files], capture_output=True, text=True, check=False).stdout
    for line in listed.splitlines():
        name, _, rest = line.strip().partition(" => ")
        path = Path((rest or name).split(" (")[0])
        if not path.is_absolute() or not path.is_file():
            continue
        is_loader = path.name.startswith("ld-")
        target = root / ("usr/lib64" if is_loader else "usr/lib") / path.name
        if not target.exists():
            _copy(path.resolve(), target)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)
