"""A Paceline that knows nothing of the machine it runs on: where the fixtures of `make_fixtures.py` come from.

It is installed from a checkout into an environment with few packages at a fixed path, and runs with hardly a variable.
`invented_machine.py` answers what it asks of the system, and sets its clock.
"""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PYTHON = Path("/tmp/paceline-compat-python")
HOME = Path("/tmp/paceline-compat-home")
TARGET = HERE / "written_by_b4bdfd2"
VARIABLES = {
    "PATH": "/usr/bin:/bin",
    "HOME": str(HOME),
    "LANG": "C.UTF-8",
    "NO_COLOR": "1",
    "HOST_HOSTNAME": "bench-host",
}

GIT = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}

Done = subprocess.CompletedProcess[str]


def place_of(name: str) -> Path:
    """Where a fixture is made and opened: its configurations have their absolute path in their fingerprints."""
    return Path(f"/tmp/paceline-compat-{name}")


def install(checkout: Path) -> None:
    """Make the environment."""
    shutil.rmtree(PYTHON, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", "--copies", PYTHON], check=True)
    uv = [Path(sys.prefix, "bin/uv"), "--quiet", "pip", "install", "--python", PYTHON / "bin/python"]
    subprocess.run([*uv, "--constraint", checkout / "requirements.lock", f"{checkout}[s3]"], check=True)
    (packages,) = PYTHON.glob("lib/*/site-packages")
    for origin in packages.glob("paceline-*.dist-info/direct_url.json"):
        origin.unlink()  # It would tell where the checkout is.
    shutil.copyfile(HERE / "invented_machine.py", packages / "sitecustomize.py")


def set_clock(moment: str | None) -> None:
    """Let commands that start from now on begin at this moment; None is the real time."""
    clock = PYTHON / "clock"
    clock.unlink(missing_ok=True)
    if moment:
        clock.write_text(moment)


def begin(name: str) -> Path:
    """The suite of that name in its place, and nothing else."""
    place = place_of(name)
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(HERE / "suites" / name, place)
    HOME.mkdir(exist_ok=True)
    return place


def paceline(place: Path, *words: str, codes: Collection[int] = (0,), **variables: str) -> Done:
    done = subprocess.run(
        [PYTHON / "bin/paceline", *words],
        cwd=place,
        env={**VARIABLES, **variables},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode not in codes:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


def start(place: Path, *words: str, **variables: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [PYTHON / "bin/paceline", *words],
        cwd=place,
        env={**VARIABLES, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def git(place: Path, *words: str, when: str = "", feed: str = "") -> None:
    """git by somebody of no particular name, who keeps no log of what was checked out."""
    name = ("user.name=Demo", "user.email=demo@example.invalid", "gc.auto=0", "core.logAllRefUpdates=false")
    options = [word for one in name for word in ("-c", one)]
    dates = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when} if when else {}
    environ = {**VARIABLES, **GIT, **dates}
    subprocess.run(["git", *options, *words], cwd=place, env=environ, input=feed, text=True, check=True)


def ask(place: Path, questions: Collection[tuple[str, ...]], **variables: str) -> list[dict[str, Any]]:
    """What the commands answer, each as a test is to find it again."""
    return [answer(words, paceline(place, *words, codes=(0, 1), **variables)) for words in questions]


def answer(words: tuple[str, ...], done: Done) -> dict[str, Any]:
    told: dict[str, Any] = {"words": list(words), "code": done.returncode}
    try:
        return told | {"json": json.loads(done.stdout)}
    except ValueError:
        return told | {"lines": done.stdout.splitlines()}


def write_goldens(name: str, content: Any) -> None:
    TARGET.mkdir(exist_ok=True)
    text = json.dumps(content, indent=1, ensure_ascii=False)
    _check_neutral(f"goldens of {name}", text.encode())
    (TARGET / f"{name}.json").write_text(f"{text}\n")


def pack(name: str, place: Path) -> None:
    """The place as a compressed archive that depends on nothing but its content and its files' times."""
    TARGET.mkdir(exist_ok=True)
    for path in sorted(place.rglob("*")):
        _check_neutral(str(path), os.fsencode(path))
        if path.is_file() and not path.is_symlink():
            _check_neutral(str(path), path.read_bytes())
    with (
        gzip.GzipFile(TARGET / f"{name}.tar.gz", "wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in sorted(place.rglob("*")):
            archive.add(path, str(path.relative_to(place)), recursive=False, filter=_owned_by_nobody)


def _owned_by_nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _own_words() -> list[str]:
    """What would tell of the machine on which the fixtures are made."""
    uname = os.uname()
    cpu = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    told = [uname.nodename, uname.release, boot, str(Path.home()), str(HERE.parents[1]), sys.prefix]
    for key in ("user.name", "user.email"):
        told.append(subprocess.run(["git", "config", key], capture_output=True, text=True).stdout.strip())
    return [text for text in (*told, *(cpu.groups() if cpu else ())) if text]


def _check_neutral(where: str, content: bytes) -> None:
    """Stop if a text, or a text in a database, has one of those words in it."""
    text = content.decode(errors="replace")
    apart = r"(?<![\w.-]){}(?![\w.-])" if "\ufffd" not in text else '"{}"'
    words = [apart.format(re.escape(word)) for word in _own_words()]
    for word in (*words, r"(?<![\w.\]-])/(work|root|home|opt|usr/local)/"):
        if found := re.search(word, text):
            raise SystemExit(f"{where} has {found[0]!r} in it")
