"""What is left of a configuration without its faulty parts, so that mistakes elsewhere are found in the same go."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from paceline.config.dialects import UNIQUE_LISTS, Normalised
from paceline.config.merge import identity
from paceline.config.nodes import Location, Node, items_of, mapping_of


class Salvaged(NamedTuple):
    """The parts that have no fault; `left_out` has the names of the others by their list or top-level key."""

    normalised: Normalised
    left_out: Mapping[str, frozenset[str]]


def salvage(normalised: Normalised, faults: Iterable[Location]) -> Salvaged:
    """The tree without the items and top-level keys that faults lie in, and without items that are there twice."""
    root = dict(mapping_of(normalised.tree))
    positions = dict(normalised.positions)
    items, keys = _sort_faults(faults)
    left_out: dict[str, frozenset[str]] = {key: frozenset() for key in keys if root.pop(key, None)}
    for key in UNIQUE_LISTS:
        listed = items_of(root.get(key))
        kept = _unique(listed, items.get(key, set()))
        if len(kept) < len(listed):
            dropped = [item for index, item in enumerate(listed) if index not in kept]
            left_out[key] = frozenset(_name(item) for item in dropped)
            root[key] = root[key]._replace(value=[listed[index] for index in kept])
            before = positions.get(key) or range(len(listed))
            positions[key] = [before[index] for index in kept]
    root.setdefault("entries", Node([], normalised.tree.mark))
    tree = normalised.tree._replace(value=root)
    return Salvaged(normalised._replace(tree=tree, positions=positions), left_out)


def _sort_faults(faults: Iterable[Location]) -> tuple[dict[str, set[int]], set[str]]:
    """Faults in items of lists by list, and the top-level keys that are at fault as a whole."""
    items: dict[str, set[int]] = {}
    keys: set[str] = set()
    for path in faults:
        if len(path) > 1 and path[0] in UNIQUE_LISTS and isinstance(path[1], int):
            items.setdefault(str(path[0]), set()).add(path[1])
        elif path:
            keys.add(str(path[0]))
    return items, keys


def _unique(items: Sequence[Node], faulty: set[int]) -> list[int]:
    seen: set[tuple[str, str]] = set()
    kept = []
    for index, item in enumerate(items):
        found = identity(item)
        if index not in faulty and found not in seen:
            kept.append(index)
        if found is not None:
            seen.add(found)
    return kept


def _name(item: Node) -> str:
    name = mapping_of(item).get("name")
    return "" if name is None else name.text
