"""Configuration files → one validated `Config`, or a ConfigError that holds every problem of every file."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.config import variables
from paceline.config.dialects import find_duplicates, normalise, normalise_datasets, normalise_document
from paceline.config.merge import merge
from paceline.config.nodes import Mark, Node, at, from_data, parse_file
from paceline.config.problems import Locator
from paceline.config.schema import Config
from paceline.config.sink_choice import COMMAND_LINE, variables_of_sinks
from paceline.config.validate import validate
from paceline.config.variables import BLOCK_LISTS, Unset, substitute_tree
from paceline.errors import ConfigError, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A configuration with its origins.

    `tree` has the same shape as `config`. `unset` has the first unset variable of each block, by its path such as
    `("entries", 3)`; variables in `datasets` and `paths` are looked up when an entry uses them.
    """

    config: Config
    tree: Node
    files: tuple[Path, ...]
    unset: Mapping[variables.Path, Unset]
    used_variables_in_sinks: tuple[str, ...]
    warnings: tuple[str, ...]
    positions: Mapping[str, Sequence[int]]

    def mark(self, path: variables.Path) -> Mark:
        """The file and line that set the value at a path, or the nearest part around it."""
        return at(self.tree, path).mark

    def label(self, path: variables.Path) -> str:
        """The path as errors name it: `entries[3].args`, the index counted with the disabled entries."""
        return Locator(self.tree, self.positions).path_text(path)


def load(
    paths: Sequence[Path],
    *,
    datasets: Path | None = None,
    sinks: Sequence[str] = (),
    overrides: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Loaded:
    """Read, merge, interpolate and validate configuration files; later files win, `overrides` win over all.

    `datasets` is a file with dataset paths alone; `sinks` are names given on the command line (`none`: no sink).
    """
    environ = os.environ if environ is None else environ
    reading = _Reading(paths, datasets)
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
    config, found = validate(substituted, normalised, with_missing=not reading.broken)
    if found or problems or config is None:
        raise _error([*problems, *found], paths)
    return Loaded(
        config=config,
        tree=substituted.node,
        files=tuple(paths),
        unset=_first_of_blocks(substituted.unset),
        used_variables_in_sinks=_sink_variables(normalised.tree),
        warnings=tuple(normalised.warnings),
        positions=normalised.positions,
    )


class _Reading:
    """All files, merged as far as they can be read."""

    def __init__(self, paths: Sequence[Path], datasets: Path | None) -> None:
        self.tree: Node | None = None
        self.problems: list[Problem] = []
        self.broken = False
        for path in paths:
            for document in self._documents(path):
                self._add_document(document)
        if datasets is not None:
            for document in self._documents(datasets):
                self._add_document(Node({"datasets": normalise_datasets(document)}, document.mark))
        if not paths:
            self.problems.append(Problem(file="", line=0, path="", message="no configuration file is given"))

    def add(self, tree: Node) -> None:
        self.tree = tree if self.tree is None else merge(self.tree, tree)

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


def _is_block(path: variables.Path) -> bool:
    return len(path) > 1 and path[0] in BLOCK_LISTS


def _first_of_blocks(unset: Sequence[Unset]) -> dict[variables.Path, Unset]:
    first: dict[variables.Path, Unset] = {}
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
