"""Makes data once: runs a generator into a directory, unless what is there came of the same generator and arguments.

    python benchmarks/data/cached.py --into .benchmark_data/small make_documents.py -- --output=@/docs --documents=2000

In the generator's arguments `@` at the start of a value is the directory. Beside the data `made.json` tells what it was
made of (the generator's source, its arguments, the versions of the packages that decide its bytes) and the hash of
every file. Data that another recipe made, or that was changed since, is made again; nobody ever sees half of it.
"""

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from paceline import emit

HERE = Path(__file__).parent
# Their random numbers, or the bytes they write, may differ from version to version.
PACKAGES = ("numpy", "pyarrow", "torch", "transformers")
NOTE = "made.json"


def main() -> int:
    args = parse_args()
    generator = HERE / args.generator
    args.into.parent.mkdir(parents=True, exist_ok=True)
    with locked(args.into.with_name(f".{args.into.name}.lock")):
        recipe = recipe_of(generator, args.words)
        was_made = not is_there(args.into, recipe)
        if was_made and (code := make(args.into, generator, args.words, recipe)):
            return code
    files = json.loads((args.into / NOTE).read_text())["files"]
    size_bytes = sum((args.into / name).stat().st_size for name in files)
    print(f"{args.into}: {'made' if was_made else 'found'} {len(files)} files, {size_bytes:,} bytes")
    if args.benchmark_results_path is not None:
        counts = {"num_files": len(files), "size_bytes": size_bytes}
        emit.metrics({"is_success": True, "was_made": was_made, **counts})
    return 0


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--benchmark-results-path", help="where a run under `paceline run` writes its results"
    )
    parser.add_argument("--into", type=Path, required=True, help="the directory of the data")
    parser.add_argument("generator", help="a script beside this one")
    parser.add_argument("words", nargs="*", help="its arguments, after --")
    return parser.parse_args()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let other sessions that want the same data wait for it."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def recipe_of(generator: Path, words: Sequence[str]) -> dict[str, object]:
    versions = {name: found for name in PACKAGES if (found := installed(name))}
    return {"generator": hash_of(generator), "arguments": list(words), "packages": versions}


def installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def hash_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def files_in(directory: Path) -> dict[str, str]:
    paths = sorted(path for path in directory.rglob("*") if path.is_file() and path.name != NOTE)
    return {str(path.relative_to(directory)): hash_of(path) for path in paths}


def is_there(directory: Path, recipe: dict[str, object]) -> bool:
    """Whether the data was made by this recipe and is as it was then."""
    try:
        note = json.loads((directory / NOTE).read_text())
    except (OSError, ValueError):
        return False
    return note == {"recipe": recipe, "files": files_in(directory)}


def make(directory: Path, generator: Path, words: Sequence[str], recipe: dict[str, object]) -> int:
    """Run the generator into a new directory, which then takes the place of the old one."""
    draft = directory.with_name(f".{directory.name}.draft-{os.getpid()}")
    draft.mkdir()
    try:
        filled = [word.replace("=@", f"={draft}", 1) for word in words]
        done = subprocess.run([sys.executable, str(generator), *filled], check=False)
        if done.returncode:
            return done.returncode
        (draft / NOTE).write_text(json.dumps({"recipe": recipe, "files": files_in(draft)}, indent=2))
        shutil.rmtree(directory, ignore_errors=True)
        draft.rename(directory)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
