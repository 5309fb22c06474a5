"""Configuration files → one validated `Config`, or a ConfigError that holds every problem of every file."""

import gc
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from paceline.config.bare_suites import bare_suite
from paceline.config.dialects import (
    Normalised,
    find_duplicates,
    normalise,
    normalise_datasets,
    normalise_document,
    salvage,
)
from paceline.config.merge import merge
from paceline.config.nodes import Location, Mark, Node, at, mapping_of, parse_file
from paceline.config.schema import Config
from paceline.config.sinks import variables_of_sinks
from paceline.config.templates import BLOCK_LISTS, Unset, substitute_tree
from paceline.config.validate import Locator, validate
from paceline.errors import ConfigError, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A configuration with its origins.

    `tree` has the same shape as `config`. `unset` has the first unset variable of each block, by its path such as
    `("entries", 3)`, and `all_unset` all of them; variables in `datasets` and `paths` are looked up when an entry
    uses them. A configuration that was loaded leniently may have `problems`; it then lacks the parts they lie in, whose
    names are in `left_out`, and is good for nothing but to look for more of them.
    """

    config: Config
    tree: Node
    files: tuple[Path, ...]
    unset: Mapping[Location, Unset]
    used_variables_in_sinks: tuple[str, ...]
    warnings: tuple[str, ...]
    positions: Mapping[str, Sequence[int]]
    all_unset: tuple[Unset, ...] = ()
    problems: tuple[Problem, ...] = ()
    left_out: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def mark(self, path: Location) -> Mark:
        """The file and line that set the value at a path, or the nearest part around it."""
        return at(self.tree, path).mark

    def label(self, path: Location) -> str:
        """The path as errors name it: `entries[3].args`, the index counted with the disabled entries."""
        return Locator(self.tree, self.positions).path_text(path)

    def problem(self, path: Location, message: str) -> Problem:
        """What is wrong with the value at a path."""
        return Locator(self.tree, self.positions).problem(path, message)


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the garbage collector from looking again and again at all that is made here, and still in use."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@collector_paused()
def load(
    paths: Sequence[Path],
    *,
    datasets: Path | None = None,
    sinks: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    lenient: bool = False,
    skipped: Mapping[Path, Collection[str]] = MappingProxyType({}),
) -> Loaded:
    """Read, merge, interpolate and validate configuration files; later files win.

    `datasets` is a file with dataset paths alone; `sinks` are names given on the command line (`none`: no sink).
    `skipped` are keys at the top of a file that are not for this reader: a file may hold an experiment with its suite.
    Problems are raised; a `lenient` caller gets them with what is sound, if every file could be read, so that
    `make_plan` can raise them together with those that it finds.
    """
    environ = os.environ if environ is None else environ
    reading = _Reading()
    for path in paths:
        for document in reading.documents(path):
            keys = {
                key: node for key, node in mapping_of(document).items() if key not in skipped.get(path, ())
            }
            reading.add(document._replace(value=keys) if isinstance(document.value, dict) else document)
    for document in reading.documents(datasets) if datasets else ():
        reading.add(Node({"datasets": normalise_datasets(document)}, document.mark))
    if not paths:
        reading.problems.append(Problem(file="", line=0, path="", message="no configuration file is given"))
    if reading.tree is None:
        raise config_error(reading.problems, paths)
    normalised = normalise(reading.tree, sinks=tuple(sinks), environ=environ)
    substituted = substitute_tree(normalised.tree, environ)
    locator = Locator(substituted.node, normalised.positions)
    problems = [*reading.problems, *normalised.problems]
    if reading.count > 1:  # those of one document are known
        problems += find_duplicates(reading.tree)
    problems += [locator.problem(path, message) for path, message in substituted.malformed]
    problems += [
        locator.problem(item.path, f"{item}; set it, or write ${{{item.name}:-default}}")
        for item in substituted.unset
        # Those of a block block it, and those of datasets and paths wait until they are used.
        if not _is_block(item.path) and item.path[:1] not in (("datasets",), ("paths",))
    ]
    validated = validate(substituted, normalised, with_missing=not reading.is_broken)
    problems += validated.problems
    if not problems and validated.config is not None:
        return _loaded(validated.config, validated.tree, normalised, substituted.unset, paths)
    error = config_error(problems, paths)
    if not lenient or reading.is_broken:
        raise error
    faults = [*validated.faults, *(path for path, _ in substituted.malformed)]
    rest, left_out = salvage(normalised, faults)
    substituted = substitute_tree(rest.tree, environ)
    validated = validate(substituted, rest, with_missing=False)
    if validated.config is None:
        raise error
    sound = _loaded(validated.config, validated.tree, rest, substituted.unset, paths)
    return replace(sound, problems=error.problems, left_out=left_out)


class _Reading:
    """All files, merged as far as they can be read."""

    def __init__(self) -> None:
        self.tree: Node | None = None
        self.problems: list[Problem] = []
        self.is_broken = False
        self.count = 0

    def documents(self, path: Path) -> list[Node]:
        try:
            suite = bare_suite(path)
            return parse_file(path) if suite is None else [suite]
        except ConfigError as error:
            self.problems += error.problems
            self.is_broken = True
            return []

    def add(self, document: Node) -> None:
        self.count += 1
        tree, problems = normalise_document(document)
        self.problems += problems
        try:
            self.tree = tree if self.tree is None else merge(self.tree, tree)
        except ConfigError as error:
            # The tree lacks this document, so what it would have brought must not be missed.
            self.problems += error.problems
            self.is_broken = True


def _loaded(
    config: Config, tree: Node, normalised: Normalised, unset: Sequence[Unset], paths: Sequence[Path]
) -> Loaded:
    of_blocks = [item for item in unset if _is_block(item.path)]
    return Loaded(
        config=config,
        tree=tree,
        files=tuple(paths),
        unset={item.path[:2]: item for item in reversed(of_blocks)},
        used_variables_in_sinks=tuple(
            dict.fromkeys(variables_of_sinks(mapping_of(normalised.tree).get("sinks")))
        ),
        warnings=tuple(normalised.warnings),
        positions=normalised.positions,
        all_unset=tuple(of_blocks),
    )


def _is_block(path: Location) -> bool:
    return len(path) > 1 and path[0] in BLOCK_LISTS


def config_error(problems: Sequence[Problem], files: Sequence[Path]) -> ConfigError:
    """All problems in file order; a mistake in a value used many times (an anchor, a default) is reported once."""
    order = {str(path): index for index, path in reversed(list(enumerate(files)))}
    once = {(one.file, one.line, one.message): one for one in reversed(problems)}
    return ConfigError(sorted(once.values(), key=lambda one: (order.get(one.file, len(order)), one)))
