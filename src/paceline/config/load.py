"""Configuration files → one validated `Config`, or a ConfigError that holds every problem of every file."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from paceline.config.dialects import (
    Normalised,
    find_duplicates,
    normalise,
    normalise_datasets,
    normalise_document,
)
from paceline.config.merge import merge
from paceline.config.nodes import Location, Mark, Node, at, from_data, parse_file
from paceline.config.problems import Locator
from paceline.config.salvage import salvage
from paceline.config.schema import Config
from paceline.config.sink_choice import COMMAND_LINE, variables_of_sinks
from paceline.config.templates import BLOCK_LISTS, Unset, substitute_tree
from paceline.config.validate import validate
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


def load(
    paths: Sequence[Path],
    *,
    datasets: Path | None = None,
    sinks: Sequence[str] = (),
    overrides: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    lenient: bool = False,
    skipped: Mapping[Path, Collection[str]] = MappingProxyType({}),
) -> Loaded:
    """Read, merge, interpolate and validate configuration files; later files win, `overrides` win over all.

    `datasets` is a file with dataset paths alone; `sinks` are names given on the command line (`none`: no sink).
    `skipped` are keys at the top of a file that are not for this reader: a file may hold an experiment with its suite.
    Problems are raised; a `lenient` caller gets them with what is sound, if every file could be read, so that
    `make_plan` can raise them together with those that it finds.
    """
    environ = os.environ if environ is None else environ
    reading = _Reading(paths, datasets, skipped)
    if overrides:
        reading.add(_override_tree(overrides))
    if reading.tree is None:
        raise _error(reading.problems, paths)
    normalised = normalise(reading.tree, sinks=tuple(sinks), environ=environ)
    substituted = substitute_tree(normalised.tree, environ)
    locator = Locator(substituted.node, normalised.positions)
    problems = [*reading.problems, *normalised.problems, *find_duplicates(reading.tree)]
    problems += [locator.problem(path, message) for path, message in substituted.malformed]
    problems += _unset_outside_blocks(substituted.unset, locator)
    validated = validate(substituted, normalised, with_missing=not reading.broken)
    problems += validated.problems
    if not problems and validated.config is not None:
        return _loaded(validated.config, validated.tree, normalised, substituted.unset, paths)
    error = _error(problems, paths)
    faults = [*validated.faults, *(path for path, _ in substituted.malformed)]
    sound = _load_sound(normalised, faults, environ, paths) if lenient and not reading.broken else None
    if sound is None:
        raise error
    return replace(sound, problems=error.problems)


def _load_sound(
    normalised: Normalised,
    faults: Sequence[Location],
    environ: Mapping[str, str],
    paths: Sequence[Path],
) -> Loaded | None:
    """The configuration without its faulty parts; None if that cannot be told."""
    rest, left_out = salvage(normalised, faults)
    substituted = substitute_tree(rest.tree, environ)
    validated = validate(substituted, rest, with_missing=False)
    if validated.config is None:
        return None
    loaded = _loaded(validated.config, validated.tree, rest, substituted.unset, paths)
    return replace(loaded, left_out=left_out)


def _loaded(
    config: Config, tree: Node, normalised: Normalised, unset: Sequence[Unset], paths: Sequence[Path]
) -> Loaded:
    return Loaded(
        config=config,
        tree=tree,
        files=tuple(paths),
        unset=_first_of_blocks(unset),
        used_variables_in_sinks=_sink_variables(normalised.tree),
        warnings=tuple(normalised.warnings),
        positions=normalised.positions,
        all_unset=tuple(item for item in unset if _is_block(item.path)),
    )


class _Reading:
    """All files, merged as far as they can be read."""

    def __init__(
        self, paths: Sequence[Path], datasets: Path | None, skipped: Mapping[Path, Collection[str]]
    ) -> None:
        self.tree: Node | None = None
        self.problems: list[Problem] = []
        self.broken = False
        for path in paths:
            for document in self._documents(path):
                self._add_document(_without(document, skipped.get(path, ())))
        if datasets is not None:
            for document in self._documents(datasets):
                self._add_document(Node({"datasets": normalise_datasets(document)}, document.mark))
        if not paths:
            self.problems.append(Problem(file="", line=0, path="", message="no configuration file is given"))

    def add(self, tree: Node) -> None:
        try:
            self.tree = tree if self.tree is None else merge(self.tree, tree)
        except ConfigError as error:
            # The tree lacks this document, so what it would have brought must not be missed.
            self.problems += error.problems
            self.broken = True

    def _add_document(self, document: Node) -> None:
        tree, problems = normalise_document(document)
        self.problems += problems
        self.add(tree)

    def _documents(self, path: Path) -> list[Node]:
        try:
            return parse_file(path)
        except ConfigError as error:
            self.problems += error.problems
            self.broken = True
            return []


def _without(document: Node, keys: Collection[str]) -> Node:
    if not keys or not isinstance(document.value, dict):
        return document
    return document._replace(value={key: node for key, node in document.value.items() if key not in keys})


def _override_tree(overrides: Mapping[str, Any]) -> Node:
    """Values of the command line; the shell has put variables in already, so a dollar is a dollar."""
    given = {key: value for key, value in overrides.items() if value is not None}
    return _with_escaped_dollars(from_data(given, COMMAND_LINE))


def _with_escaped_dollars(node: Node) -> Node:
    value = node.value
    if isinstance(value, dict):
        return node._replace(value={key: _with_escaped_dollars(child) for key, child in value.items()})
    if isinstance(value, list):
        return node._replace(value=[_with_escaped_dollars(child) for child in value])
    if isinstance(value, str):
        return node._replace(value=value.replace("$", "$$"))
    return node


def _is_block(path: Location) -> bool:
    return len(path) > 1 and path[0] in BLOCK_LISTS


def _first_of_blocks(unset: Sequence[Unset]) -> dict[Location, Unset]:
    first: dict[Location, Unset] = {}
    for item in unset:
        if _is_block(item.path):
            first.setdefault(item.path[:2], item)
    return first


def _unset_outside_blocks(unset: Sequence[Unset], locator: Locator) -> list[Problem]:
    """Unset variables that concern the whole session; those of datasets and paths wait until they are used."""
    outside = [
        item
        for item in unset
        if not _is_block(item.path) and item.path[:1] not in (("datasets",), ("paths",))
    ]
    return [
        locator.problem(item.path, f"{item}; set it, or write ${{{item.name}:-default}}") for item in outside
    ]


def _sink_variables(tree: Node) -> tuple[str, ...]:
    assert isinstance(tree.value, dict)
    sinks = tree.value.get("sinks")
    return tuple(dict.fromkeys(variables_of_sinks(sinks))) if sinks else ()


def _error(problems: Sequence[Problem], paths: Sequence[Path]) -> ConfigError:
    """All problems in file order; a mistake in a value used many times (an anchor, a default) is told once."""
    order = {str(path): index for index, path in reversed(list(enumerate(paths)))}
    once: dict[tuple[str, int, str], Problem] = {}
    for problem in problems:
        once.setdefault((problem.file, problem.line, problem.message), problem)
    return ConfigError(sorted(once.values(), key=lambda item: (order.get(item.file, len(order)), item.line)))
