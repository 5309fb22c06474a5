"""Suites of other tools that need no configuration of ours: `asv.conf.json`, or tests of pytest, named in its place."""

from pathlib import Path

from paceline.config.asv_conf import NAMES, read_conf
from paceline.config.nodes import SUFFIXES, Mark, Node, from_data


def bare_suite(path: Path) -> Node | None:
    """The configuration that stands for such a suite; None if the path is that of a configuration."""
    file, colons, test = str(path).partition("::")
    place = Path(file)
    file_of_asv = place if place.name in NAMES else _conf_in(place)
    if file_of_asv is not None:
        conf = read_conf(file_of_asv)
        name = conf.project or conf.path.absolute().parent.name
        return _one_entry(conf.path, name, "asv", conf.path.name)
    if place.suffix not in SUFFIXES and (place.is_dir() or place.suffix == ".py"):
        whole = place.absolute()
        return _one_entry(whole, whole.stem, "pytest", f"{whole.name}{colons}{test}")
    return None


def _conf_in(directory: Path) -> Path | None:
    return next((directory / name for name in NAMES if (directory / name).is_file()), None)


def _one_entry(path: Path, name: str, kind: str, value: str) -> Node:
    """A suite of one entry; a dollar in a path is none of a variable."""
    entry = {"name": name.replace("$", "$$"), kind: value.replace("$", "$$")}
    return from_data({"entries": [entry]}, Mark(str(path), 1))
