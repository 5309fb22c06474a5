"""Print the part of requirements.lock that some extras need, hashes included; the standard library is all it takes.

The lock holds everything that development needs. Its `# via` lines say who asked for each package, so what the core
and some extras need is found by following them. Run in the directory of pyproject.toml and requirements.lock.
"""

import argparse
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OWN = re.compile(r"paceline\[([^\]]*)\]")


class Pin(NamedTuple):
    """One package of the lock: its lines, and the packages that asked for it."""

    name: str
    text: str
    wanted_by: frozenset[str]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--extras", default="", help="extras, separated by commas; 'none' for the core alone")
    parser.add_argument("--package", help="only this package of the lock, and what it needs")
    parser.add_argument(
        "--without", action="append", default=[], help="a package that is installed otherwise"
    )
    options = parser.parse_args()
    pins = list(read_pins(Path("requirements.lock").read_text(encoding="utf-8")))
    try:
        roots = {normal(options.package)} if options.package else find_roots(options.extras)
        chosen = choose(pins, roots, {normal(name) for name in options.without})
    except LookupError as error:
        print(error.args[0], file=sys.stderr)
        return 2
    sys.stdout.writelines(pin.text for pin in chosen)
    return 0


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def read_pins(text: str) -> Iterator[Pin]:
    """The blocks of a lock: a line `name==version`, then hashes and comments that are indented."""
    for block in re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE):
        if name := _NAME.match(block):
            comments = re.findall(r"^ +# *(?:via)? *([^\n]*)", block, flags=re.MULTILINE)
            wanted_by = {normal(found[0]) for line in comments if (found := _NAME.match(line))}
            yield Pin(normal(name[0]), block, frozenset(wanted_by))


def find_roots(extras: str) -> set[str]:
    """What pyproject.toml itself asks for."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    known: dict[str, list[str]] = project["optional-dependencies"]
    requirements = list(project["dependencies"])
    queue = [one.strip() for one in extras.split(",") if one.strip() not in ("", "none")]
    for extra in queue:
        if extra not in known:
            raise LookupError(f"no extra {extra!r}; pyproject.toml has {', '.join(known)}")
        for requirement in known[extra]:
            if own := _OWN.match(requirement):
                queue += [one for one in own[1].split(",") if one not in queue]
            else:
                requirements.append(requirement)
    return {normal(found[0]) for one in requirements if (found := _NAME.match(one))}


def choose(pins: Iterable[Pin], roots: set[str], without: set[str]) -> list[Pin]:
    """The roots and all that they asked for, in the order of the lock."""
    pins = list(pins)
    missing = sorted(roots - without - {pin.name for pin in pins})
    if missing:
        raise LookupError(f"not in requirements.lock: {', '.join(missing)}; name its version otherwise")
    found = roots - without
    while more := {pin.name for pin in pins if pin.wanted_by & found} - found - without:
        found |= more
    return [pin for pin in pins if pin.name in found]


if __name__ == "__main__":
    sys.exit(main())
