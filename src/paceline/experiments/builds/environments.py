"""Virtual environments with given packages, built once and kept by what they are made of."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import paceline
from paceline.errors import BuildError
from paceline.experiments.builds.cache import default_cache_dir, keep

__all__ = ["Venv", "build_venv", "default_cache_dir", "planned_venv", "venv_key"]

OnLine = Callable[[str], None]

_SHOWN_LINES = 12
_SKIPPED = frozenset({".git", "__pycache__", ".venv", "venv", "build", "dist", "node_modules", ".tox"})
_WHOLE_BYTES = 1 << 20
"""Files up to this size count by their content, larger ones by size and time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Venv:
    """An environment that is ready; `packages` are those that were asked for, `installed` all with their versions."""

    python: Path
    key: str
    packages: tuple[str, ...]
    installed: tuple[str, ...] = ()

    @property
    def bin(self) -> Path:
        return self.python.parent


def build_venv(
    packages: Sequence[str],
    *,
    cache_dir: Path,
    log: Path,
    on_line: OnLine | None = None,
    python: str | None = None,
    base: Path | None = None,
    options: Sequence[str] = (),
    overlay: bool = False,
) -> Venv:
    """An environment with these packages, by uv where there is one, else by venv and pip.

    A package is anything that pip takes; local paths are relative to `base` and count by their content, so an edited
    one is built again. `python` is a version or a path, this Python by default. All output is added to `log`.
    `options` go to the installer, such as --find-links. An `overlay` gets the packages without their dependencies, and
    everything else from the Python that runs us.
    """
    specs = tuple(_absolute(spec, base or Path.cwd()) for spec in packages)
    words = (*options, "--no-deps") if overlay else tuple(options)
    key = venv_key(specs, python=python, options=words)
    directory = cache_dir / "venvs" / key
    facts = keep(directory, lambda lock: _build(directory, specs, python, words, Shell(log, on_line, lock)))
    return Venv(
        python=directory / "bin" / "python",
        key=key,
        packages=tuple(packages),
        installed=tuple(facts.get("installed", ())),
    )


def planned_venv(
    packages: Sequence[str], *, cache_dir: Path, python: str | None = None, base: Path | None = None
) -> Venv:
    """The environment that `build_venv` would make; it may not be there yet."""
    key = venv_key(tuple(_absolute(spec, base or Path.cwd()) for spec in packages), python=python)
    return Venv(python=cache_dir / "venvs" / key / "bin" / "python", key=key, packages=tuple(packages))


def venv_key(specs: Sequence[str], *, python: str | None = None, options: Sequence[str] = ()) -> str:
    """What an environment is known by: its packages, the content of local ones, the Python and the platform."""
    content = {
        "packages": [[spec, _content(spec)] for spec in specs],
        "python": python or [sys.version, sys.base_prefix],
        "platform": sysconfig.get_platform(),
        "home": str(_home()),
        **({"options": list(options)} if options else {}),
    }
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:20]


def find_uv() -> str | None:
    """The uv beside our Python, else the one on PATH."""
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("uv")


class Shell:
    """Runs programs; what they print goes to a log and, line by line, to whoever listens."""

    def __init__(self, log: Path, on_line: OnLine | None, lock: int) -> None:
        self._log = log
        self._on_line = on_line or (lambda line: None)
        self._lock = lock

    def run(self, *words: str | Path, what: str) -> str:
        """The program's output; BuildError with its last lines if it fails."""
        argv = [str(word) for word in words]
        lines: list[str] = []
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(argv)}\n")
            try:
                process = self._start(argv)
            except OSError as error:
                raise BuildError(f"{what}: cannot run {argv[0]}: {error.strerror or error}") from error
            with process:
                assert process.stdout is not None
                for line in process.stdout:
                    log.write(line)
                    log.flush()
                    lines.append(line.rstrip())
                    self._on_line(line.rstrip())
        if process.returncode:
            tail = "\n  ".join(lines[-_SHOWN_LINES:])
            raise BuildError(f"{what} failed; the whole log is in {self._log}\n  {tail}")
        return "\n".join(lines)

    def _start(self, argv: Sequence[str]) -> subprocess.Popen[str]:
        # It holds our lock too: if we are killed, nobody builds in the same place before it has ended.
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=_environ(),
            pass_fds=(self._lock,),
        )


def _environ() -> dict[str, str]:
    """Ours, without what would lead the installer to another environment, and without questions."""
    dropped = {"VIRTUAL_ENV", "PYTHONHOME", "PYTHONPATH", "CONDA_PREFIX", "PIP_TARGET", "PIP_USER"}
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return {**kept, "CONDA_ALWAYS_YES": "true", "MAMBA_ALWAYS_YES": "true", "PIP_NO_INPUT": "1"}


def _build(
    directory: Path, specs: Sequence[str], python: str | None, options: Sequence[str], shell: Shell
) -> Mapping[str, Any]:
    uv = find_uv()
    interpreter = directory / "bin" / "python"
    what = f"an environment with {', '.join(specs) or 'no packages'}"
    words = [word for spec in specs for word in _words(spec)]
    if uv:
        shell.run(uv, "venv", "--quiet", "--python", python or sys.executable, directory, what=what)
        if words:
            shell.run(uv, "pip", "install", "--python", interpreter, *options, *words, what=what)
        frozen = shell.run(uv, "pip", "freeze", "--quiet", "--python", interpreter, what=what)
    else:
        # Our own pip works for another environment too; one in each takes most of the time of making it.
        ours = find_spec("pip") is not None
        pip: list[str | Path] = [interpreter, "-m", "pip"]
        if ours:
            pip = [sys.executable, "-m", "pip", "--python", interpreter]
        bare = ("--without-pip",) if ours else ()
        shell.run(_find_python(python), "-m", "venv", *bare, directory, what=what)
        if words:
            shell.run(*pip, "install", *options, *words, what=what)
        frozen = shell.run(*pip, "freeze", what=what)
    lend_ourselves(interpreter, shell, what, everything="--no-deps" in options)
    return {"installed": [line for line in frozen.splitlines() if line.strip()], "packages": list(specs)}


def _words(spec: str) -> list[str]:
    """One package as arguments: `-e DIR` and `-r FILE` are two."""
    flag = re.fullmatch(r"(-e|-r|--editable|--requirement)[ =](.+)", spec.strip())
    return [flag[1], flag[2].strip()] if flag else [spec]


def _find_python(asked: str | None) -> str:
    if asked is None:
        return sys.executable
    found = shutil.which(asked) or shutil.which(f"python{asked}")
    if found is None:
        raise BuildError(
            f"there is no Python {asked} on PATH: install it, or install uv, which finds more of them"
        )
    return found


def _home() -> Path:
    return Path(paceline.__file__).parent


def lend_ourselves(python: Path, shell: Shell, what: str, *, everything: bool = False) -> None:
    """Scripts import `paceline.emit`, which needs nothing but the standard library: they get the one of this runner.

    An overlay gets `everything` that this Python has; what it has itself is found first.
    """
    program = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(shell.run(python, "-c", program, what=what).splitlines()[-1])
    if everything:
        ours = dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
        lines = [f"import site; site.addsitedir({path!r})\n" for path in ours]
        (packages / "zz_paceline_overlay.pth").write_text("".join(lines))
    link = packages / "paceline"
    if not link.exists():
        link.symlink_to(_home())


def _absolute(spec: str, base: Path) -> str:
    """The package with a local path made absolute."""
    *flag, name = _words(spec)
    path = Path(name).expanduser()
    is_local = flag or name.startswith((".", "/", "~")) or name.endswith((".whl", ".tar.gz"))
    if not is_local or "://" in name:
        return spec.strip()
    full = os.path.normpath(base / path)
    return f"{flag[0]} {full}" if flag else full


def _content(spec: str) -> str:
    """A hash of what a package is made of now, if that is a local path or a branch; else nothing."""
    name = _words(spec)[-1]
    if "git+" in name:
        return _remote_revision(name)
    address = name.partition("@")[2].strip() if "@" in name and "file:" in name else name
    if address.startswith("file:"):
        address = unquote(urlsplit(address).path)
    path = Path(address.partition("[")[0])
    return hash_tree(path) if path.is_absolute() and path.exists() else ""


def _remote_revision(spec: str) -> str:
    """The commit that a branch or tag stands for now; nothing if it cannot be asked."""
    url = spec[spec.index("git+") + 4 :].partition("#")[0]
    head, at, ref = url.rpartition("@")
    url, ref = (head, ref) if at and "/" not in ref.partition(":")[2] and "://" in head else (url, "HEAD")
    try:
        done = subprocess.run(
            ["git", "ls-remote", url, ref],
            check=False,
            capture_output=True,
            text=True,
            timeout=30,
            env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.split("\t")[0].strip()


def hash_tree(path: Path) -> str:
    """A hash of a file or of a directory's files, without what builds and tools leave there."""
    digest = hashlib.sha256()
    for file in [path] if path.is_file() else _files(path):
        stat = file.lstat()
        digest.update(f"{file.relative_to(path.parent)}\0{stat.st_mode:o}\0".encode(errors="surrogateescape"))
        if file.is_symlink():
            digest.update(os.fsencode(file.readlink()))
        elif stat.st_size <= _WHOLE_BYTES:
            digest.update(file.read_bytes())
        else:
            digest.update(f"{stat.st_size} {stat.st_mtime_ns}".encode())
    return digest.hexdigest()


def _files(top: Path) -> Iterator[Path]:
    for directory, names, files in os.walk(top):
        names[:] = sorted(
            name for name in names if name not in _SKIPPED and not name.endswith((".egg-info", "_cache"))
        )
        yield from (Path(directory, name) for name in sorted(files) if not name.endswith(".pyc"))
