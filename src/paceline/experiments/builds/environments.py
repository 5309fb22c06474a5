"""Virtual environments with given packages, built once and kept by what they are made of; and what pip offers."""

import hashlib
import json
import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import paceline
from paceline.errors import BuildError
from paceline.experiments.builds.cache import ask, make_once, run_logged

_SKIPPED = frozenset({".git", "__pycache__", ".venv", "venv", "build", "dist", "node_modules", ".tox"})
_WHOLE_BYTES = 1 << 20
"""Files up to this size count by their content, larger ones by size and time."""

_AVAILABLE = re.compile(r"^Available versions: (.+)$", re.MULTILINE)
_HOME = Path(paceline.__file__).parent


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
    python: str | None = None,
    base: Path | None = None,
    options: Sequence[str] = (),
    overlay: bool = False,
    build: bool = True,
) -> Venv:
    """An environment with these packages, by uv where there is one, else by venv and pip.

    A package is anything that pip takes; local paths are relative to `base` and count by their content, so an edited
    one is built again. `python` is a version or a path, this Python by default. All output is added to `log`.
    `options` go to the installer, such as --find-links. An `overlay` gets the packages without their dependencies, and
    everything else from the Python that runs us. Without `build` it is only named, and may not be there yet.
    """
    specs = tuple(_absolute(spec, base or Path.cwd()) for spec in packages)
    words = (*options, "--no-deps") if overlay else tuple(options)
    key = venv_key(specs, python=python, options=words)
    directory = cache_dir / "venvs" / key
    facts: Mapping[str, Any] = {}
    if build:
        facts = make_once(directory, lambda lock: _make_venv(directory, specs, python, words, log, lock))
    return Venv(
        python=directory / "bin" / "python",
        key=key,
        packages=tuple(packages),
        installed=tuple(facts.get("installed", ())),
    )


def venv_key(specs: Sequence[str], *, python: str | None = None, options: Sequence[str] = ()) -> str:
    """What an environment is known by: its packages, the content of local ones, the Python and the platform."""
    content = {
        "packages": [[spec, _content(spec)] for spec in specs],
        "python": python or [sys.version, sys.base_prefix],
        "platform": sysconfig.get_platform(),
        "home": str(_HOME),
        **({"options": list(options)} if options else {}),
    }
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:20]


def find_uv() -> str | None:
    """The uv beside our Python, else the one on PATH."""
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("uv")


def build_environ() -> dict[str, str]:
    """Our variables, without what would lead an installer to another environment, and without questions."""
    dropped = {"VIRTUAL_ENV", "PYTHONHOME", "PYTHONPATH", "CONDA_PREFIX", "PIP_TARGET", "PIP_USER"}
    rest = {name: value for name, value in os.environ.items() if name not in dropped}
    return {**rest, "CONDA_ALWAYS_YES": "true", "MAMBA_ALWAYS_YES": "true", "PIP_NO_INPUT": "1"}


def _make_venv(
    directory: Path, specs: Sequence[str], python: str | None, options: Sequence[str], log: Path, lock: int
) -> Mapping[str, Any]:
    uv = find_uv()
    interpreter = directory / "bin" / "python"
    what = f"an environment with {', '.join(specs) or 'no packages'}"
    env = build_environ()
    words = [word for spec in specs for word in _words(spec)]
    pip: list[str | Path]
    create: list[str | Path]
    if uv:
        pip = [uv, "pip"]
        create = [uv, "venv", "--quiet", "--python", python or sys.executable, directory]
    else:
        # Our own pip works for another environment too; one in each takes most of the time of making it.
        ours = find_spec("pip") is not None
        pip = [sys.executable, "-m", "pip", "--python", interpreter] if ours else [interpreter, "-m", "pip"]
        bare = ("--without-pip",) if ours else ()
        create = [_find_python(python), "-m", "venv", *bare, directory]
    target = ("--python", interpreter) if uv else ()
    run_logged(create, what=what, log=log, lock=lock, env=env)
    if words:
        run_logged([*pip, "install", *target, *options, *words], what=what, log=log, lock=lock, env=env)
    installed = answer([*pip, "freeze", *target], what=what).splitlines()
    lend_ourselves(interpreter, what, everything="--no-deps" in options)
    return {"installed": [line for line in installed if line.strip()], "packages": list(specs)}


def answer(words: Sequence[str | Path], *, what: str, feed: str = "", cwd: Path | None = None) -> str:
    """What a program prints about packages; a BuildError with its last lines if it fails."""
    done = ask(words, feed=feed, cwd=cwd, env=build_environ())
    if done.returncode:
        raise BuildError(f"{what}: " + " / ".join(line.strip() for line in done.stderr.splitlines()[-3:]))
    return done.stdout


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


def lend_ourselves(python: Path, what: str, *, everything: bool = False) -> None:
    """Scripts import `paceline.emit`, which needs nothing but the standard library: they get the one of this runner.

    An overlay gets `everything` that this Python has; what it has itself is found first.
    """
    program = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(answer([python, "-c", program], what=what).splitlines()[-1])
    if everything:
        ours = dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
        lines = [f"import site; site.addsitedir({path!r})\n" for path in ours]
        (packages / "zz_paceline_overlay.pth").write_text("".join(lines))
    link = packages / "paceline"
    if not link.exists():
        link.symlink_to(_HOME)


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
        done = ask(
            ["git", "ls-remote", url, ref], env={**os.environ, "GIT_TERMINAL_PROMPT": "0"}, timeout_s=30
        )
    except BuildError:
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


def installer_options(find_links: Sequence[str], *, no_index: bool, base: Path) -> tuple[str, ...]:
    """What pip and uv are told of where packages are; directories are relative to `base`."""
    places = (str((base / place).absolute()) if (base / place).is_dir() else place for place in find_links)
    links = tuple(word for place in places for word in ("--find-links", place))
    return (*links, "--no-index") if no_index else links


def available_versions(package: str, options: Sequence[str] = ()) -> tuple[str, ...]:
    """All versions that could be installed here, oldest first; `options` are pip's, such as --find-links DIR."""
    argv = [*_pip(), "index", "versions", "--disable-pip-version-check", *options, "--", package]
    try:
        done = ask(argv, env={**os.environ, "PIP_NO_COLOR": "1"}, timeout_s=120)
    except BuildError as error:
        raise BuildError(
            f"cannot ask for the versions of {package}: {error}; give them by --versions"
        ) from error
    found = _AVAILABLE.search(done.stdout)
    if found is None:
        last = [line for line in done.stderr.splitlines() if line.startswith("ERROR")][-1:]
        why = last[0].removeprefix("ERROR: ") if last else "pip knows none"
        raise BuildError(f"no versions of {package}: {why}; give them by --versions, or --find-links DIR")
    return tuple(reversed([version.strip() for version in found[1].split(",")]))


def resolve_packages(packages: Sequence[str], options: Sequence[str] = (), *, base: Path) -> tuple[str, ...]:
    """The packages and all that they need, each with the newest version that fits: what an environment is tonight."""
    uv = find_uv()
    what = "the packages cannot be resolved"
    if uv:
        words = ["pip", "compile", "--quiet", "--no-header", "--no-annotate", "--python", sys.executable]
        printed = answer(
            [uv, *words, *options, "-"], what=what, cwd=base, feed="".join(f"{spec}\n" for spec in packages)
        )
        return tuple(line.strip() for line in printed.splitlines() if line.strip() and line[0] not in "#-")
    words = ["install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    report = json.loads(answer([*_pip(), *words, *options, *packages], what=what, cwd=base))
    found = (item["metadata"] for item in report["install"])
    return tuple(sorted(f"{one['name']}=={one['version']}" for one in found))


def _pip() -> list[str]:
    if find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    found = shutil.which("pip") or shutil.which("pip3")
    if found is None:
        raise BuildError(
            "finding the versions of a package needs pip: install it, or give them by --versions"
        )
    return [found, "--python", sys.executable]
