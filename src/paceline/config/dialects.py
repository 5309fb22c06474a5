"""The older and shorter ways to write a configuration, turned into the one that the schema knows.

`normalise_document` works on each document before they are merged, so that a list in one file and a mapping in
another meet; `normalise` works on the merged tree; `salvage` leaves out of that what is faulty.
"""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import partial
from typing import NamedTuple

from paceline.config.merge import UNSET, identity, merge, without_nulls
from paceline.config.nodes import Location, Mark, Node, items_of, mapping_of, path_text, problem_at
from paceline.config.paths import in_container, mounted
from paceline.config.schema import Config
from paceline.config.sinks import choose_sinks
from paceline.config.templates import BLOCK_LISTS, MalformedVariable, expand, is_reference
from paceline.errors import ConfigError, Problem

UNIQUE_LISTS = ("entries", "data_setups", "datasets", "paths", "sinks")
_TEXT_KEYS = ("args", "command", "interpreter", "tags", "needs", "version", "env")
_LEGACY_PATHS = ("results_path", "datasets_path", "model_weights_path")


class Normalised(NamedTuple):
    """The tree that the schema knows; `positions` says where the items of a list were before some were left out."""

    tree: Node
    warnings: list[str]
    problems: list[Problem]
    positions: dict[str, list[int]]
    disabled_entries: int


def normalise_document(root: Node) -> tuple[Node, list[Problem]]:
    """One document with its mappings that stand for lists made lists; what is there twice is a problem."""
    if not isinstance(root.value, dict):
        message = "expected a mapping of keys at the top of the file"
        return Node({}, root.mark), [_problem(root.mark, (), message)]
    value = dict(root.value)
    if "datasets" in value:
        value["datasets"] = normalise_datasets(value["datasets"])
    if "defaults" in value:
        value["defaults"] = _normalise_entry(value["defaults"])
    for key in ("entries", "data_setups"):
        _change_items(value, key, _normalise_entry)
    document = root._replace(value=value)
    return document, find_duplicates(document)


def normalise_datasets(node: Node) -> Node:
    """`{name: {format: path}}` as a list of datasets with their formats."""
    if not isinstance(node.value, dict):
        return node
    items = []
    for name, formats in node.value.items():
        label = _text_node(name, formats.mark)
        if formats.value is None:
            items.append(Node({"name": label}, formats.mark, UNSET))
        else:
            listed = _keyed_items(formats, "type", "path")
            items.append(Node({"name": label, "formats": listed}, formats.mark))
    return node._replace(value=items)


def find_duplicates(root: Node) -> list[Problem]:
    """Items of one list with the same identity."""
    mapping = mapping_of(root)
    lists: list[tuple[Location, Node | None]] = [((key,), mapping.get(key)) for key in UNIQUE_LISTS]
    for outer, inner in (("entries", "requirements"), ("datasets", "formats")):
        for index, item in enumerate(items_of(mapping.get(outer))):
            lists.append(((outer, index, inner), mapping_of(item).get(inner)))
    lists.append((("defaults", "requirements"), mapping_of(mapping.get("defaults")).get("requirements")))
    problems = []
    for path, node in lists:
        seen: dict[tuple[str, str], Mark] = {}
        for index, item in enumerate(items_of(node)):
            found = identity(item)
            if found is None:
                continue
            if found in seen:
                key, text = found
                message = f"{key} {text!r} is there twice, first at {seen[found]}; give each its own {key}"
                problems.append(_problem(item.mark, (*path, index), message))
            seen.setdefault(found, item.mark)
    return problems


def normalise(tree: Node, *, sinks: tuple[str, ...], environ: Mapping[str, str]) -> Normalised:
    """The merged tree without what is unset, ignored or disabled, and with every default in its place."""
    warnings: list[str] = []
    root = dict(mapping_of(tree))
    _change_items(root, "entries", _with_ray_refusal)
    if "defaults" in root:
        root["defaults"] = _with_ray_refusal(root["defaults"])
    root = dict(mapping_of(without_nulls(tree._replace(value=root))))
    _ignore_foreign_keys(root, warnings)
    _translate_legacy_paths(root, warnings)
    _use_results_path(root, warnings, in_container(environ))
    problems = _apply_defaults(root)
    problems += choose_sinks(root, sinks, environ)
    for key in ("entries", "data_setups"):
        _change_items(root, key, _with_texts)
    if "env" in root:
        root["env"] = _as_texts(root["env"])
    count = len(items_of(root.get("entries")))
    positions = {key: _drop_disabled(root, key, environ) for key in BLOCK_LISTS}
    disabled = count - len(positions["entries"])
    return Normalised(tree._replace(value=root), warnings, problems, positions, disabled)


def salvage(
    normalised: Normalised, faults: Iterable[Location]
) -> tuple[Normalised, Mapping[str, frozenset[str]]]:
    """The tree without the items and top-level keys that faults lie in, and without items that are there twice.

    The second part of the result has the names of those that were left out, by their list or top-level key.
    """
    root = dict(mapping_of(normalised.tree))
    positions = dict(normalised.positions)
    faulty: set[Location] = set()
    left_out: dict[str, frozenset[str]] = {}
    for path in faults:
        if len(path) > 1 and path[0] in UNIQUE_LISTS and isinstance(path[1], int):
            faulty.add(path[:2])
        elif path and (key := str(path[0])) in root:
            del root[key]
            left_out[key] = frozenset()
    for key in UNIQUE_LISTS:
        listed = items_of(root.get(key))
        seen: set[tuple[str, str] | None] = set()
        kept = []
        for index, item in enumerate(listed):
            found = identity(item)
            if (key, index) not in faulty and (found is None or found not in seen):
                kept.append(index)
            seen.add(found)
        if len(kept) < len(listed):
            names = [mapping_of(listed[i]).get("name") for i in {*range(len(listed))}.difference(kept)]
            left_out[key] = frozenset("" if name is None else name.text for name in names)
            root[key] = root[key]._replace(value=[listed[index] for index in kept])
            before = positions.get(key) or range(len(listed))
            positions[key] = [before[index] for index in kept]
    root.setdefault("entries", Node([], normalised.tree.mark))
    return normalised._replace(tree=normalised.tree._replace(value=root), positions=positions), left_out


def _change_items(root: dict[str, Node], key: str, change: Callable[[Node], Node]) -> None:
    """Change every item of a list, if it is one."""
    node = root.get(key)
    if node is not None and isinstance(node.value, list):
        root[key] = node._replace(value=[change(item) for item in node.value])


def _with_ray_refusal(entry: Node) -> Node:
    """`ray: null` of an entry as `ray: false`: it refuses the top-level cluster, and must outlast the nulls."""
    mapping = mapping_of(entry)
    if "ray" not in mapping or mapping["ray"].value is not None:
        return entry
    refusal = mapping["ray"]._replace(value=False, text="false", plain=True)
    return entry._replace(value={**mapping, "ray": refusal})


def _normalise_entry(entry: Node) -> Node:
    mapping = mapping_of(entry)
    changed = {}
    for key, name in (("requirements", "metric"), ("sink_data", "name")):
        if key in mapping and isinstance(mapping[key].value, dict):
            changed[key] = _keyed_items(mapping[key], name)
    return entry._replace(value={**mapping, **changed}) if changed else entry


def _keyed_items(node: Node, name: str, content: str | None = None) -> Node:
    """A mapping as a list: each key becomes `name` of an item, whose value is its `content` or the item itself."""
    if not isinstance(node.value, dict):
        return node
    items = []
    for key, value in node.value.items():
        label = {name: _text_node(key, value.mark)}
        if value.value is None:
            items.append(Node(dict(label), value.mark, UNSET))
        elif content is not None:
            items.append(Node({**label, content: value}, value.mark))
        elif isinstance(value.value, dict):
            items.append(value._replace(value={**label, **value.value}))
        else:
            items.append(value)
    return node._replace(value=items)


def _ignore_foreign_keys(root: dict[str, Node], warnings: list[str]) -> None:
    """Leave out `x-…` keys, and unknown keys that only define an anchor."""
    for key in [key for key in root if key not in Config.model_fields]:
        if key.startswith("x-"):
            del root[key]
        elif root[key].anchored and key not in _LEGACY_PATHS:
            if close := get_close_matches(key, Config.model_fields, n=1, cutoff=0.8):
                mark = root[key].mark
                warnings.append(f"{mark}: {key!r} only defines an anchor; did you mean {close[0]!r}?")
            del root[key]


def _translate_legacy_paths(root: dict[str, Node], warnings: list[str]) -> None:
    """`results_path: D` and its like as items of `paths`."""
    items: list[Node] = []
    for key in _LEGACY_PATHS:
        if node := root.pop(key, None):
            advice = "make it an item of 'paths', or use 'results_dir'"
            warnings.append(f"{node.mark}: {key!r} is deprecated; {advice}")
            items.append(Node({"name": _text_node(key, node.mark), "host_path": node}, node.mark))
    if items:
        listed = Node(items, items[0].mark)
        root["paths"] = merge(listed, root["paths"]) if "paths" in root else listed


def _use_results_path(root: dict[str, Node], warnings: list[str], inside: bool) -> None:
    """The path named `results_path` is the results directory, unless `results_dir` is given."""
    found = (mapping_of(item) for item in items_of(root.get("paths")))
    path = next((keys for keys in found if "name" in keys and keys["name"].value == "results_path"), None)
    if path is None or "host_path" not in path:
        return
    host = path["host_path"]
    if "results_dir" in root:
        warnings.append(f"{host.mark}: 'results_dir' is given too and wins over the path 'results_path'")
    elif inside and "container_path" in path:
        root["results_dir"] = path["container_path"]
    else:
        value = mounted(host.value) if inside and isinstance(host.value, str) else host.value
        root["results_dir"] = host._replace(value=value, text=str(value))


def _apply_defaults(root: dict[str, Node]) -> list[Problem]:
    """Lay every entry over `defaults`."""
    defaults = root.get("defaults")
    if defaults is None or not isinstance(defaults.value, dict):
        return []
    del root["defaults"]
    problems = []
    if name := defaults.value.get("name"):
        problems.append(_problem(name.mark, ("defaults", "name"), "entries must not share a name"))
    _change_items(root, "entries", partial(_over_defaults, defaults, problems))
    return problems


def _over_defaults(defaults: Node, problems: list[Problem], entry: Node) -> Node:
    if not isinstance(entry.value, dict):
        return entry
    try:
        merged = merge(defaults, entry)._replace(mark=entry.mark)
    except ConfigError as error:
        problems += error.problems
        return entry
    mapping = mapping_of(merged)
    # An entry has one of the two; its own choice sets the default one aside.
    for own, other in (("script", "command"), ("command", "script")):
        if own in entry.value and other not in entry.value and other in mapping:
            return merged._replace(value={key: value for key, value in mapping.items() if key != other})
    return merged


def _with_texts(item: Node) -> Node:
    mapping = mapping_of(item)
    changed = {key: _as_texts(mapping[key]) for key in _TEXT_KEYS if key in mapping}
    return item._replace(value={**mapping, **changed}) if changed else item


def _as_texts(node: Node) -> Node:
    """Numbers and booleans of a list, a mapping or a scalar as the text that was written: `1.10` stays `1.10`."""
    value = node.value
    if isinstance(value, list):
        return node._replace(value=[_as_text(item) for item in value])
    if isinstance(value, dict):
        return node._replace(value={key: _as_text(item) for key, item in value.items()})
    return _as_text(node)


def _as_text(node: Node) -> Node:
    if isinstance(node.value, bool | int | float):
        return node._replace(value=node.text, plain=False)
    return node


def _drop_disabled(root: dict[str, Node], key: str, environ: Mapping[str, str]) -> list[int]:
    items = items_of(root.get(key))
    positions = [index for index, item in enumerate(items) if not _is_disabled(item, environ)]
    if len(positions) < len(items):
        root[key] = root[key]._replace(value=[items[index] for index in positions])
    return positions


def _is_disabled(item: Node, environ: Mapping[str, str]) -> bool:
    enabled = mapping_of(item).get("enabled")
    if enabled is None:
        return False
    if isinstance(enabled.value, str) and (enabled.plain or is_reference(enabled.value)):
        try:
            return str(expand(enabled.value, environ)).lower() == "false"
        except MalformedVariable:
            return False  # reported when the variables of all keys are put in
    return enabled.value is False


def _problem(mark: Mark, path: Location, message: str) -> Problem:
    return problem_at(mark, path_text(path), message)


def _text_node(text: str, mark: Mark) -> Node:
    return Node(text, mark, text=text)
