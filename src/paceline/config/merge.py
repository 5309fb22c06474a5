"""Several trees into one: mappings deeply, lists of mappings by identity, anything else by replacement.

- The identity of a list's item is the first of `name`, `metric` and `type` that it has; never its position or first
  key. `name` and `type` stand in for each other where an item has only one of them, as a sink may. New items of the
  right are added at the end.
- A list with an item that has no identity (a list of scalars, say), and an empty list, replace what was there.
- `!replace` replaces a list or a mapping as a whole; `!append` adds a list's items to those that were there,
  and is an error over anything but a list.
- `null` unsets. It stays in the tree as a mark until `without_nulls`, so that a later file may set the key anew. Where
  a mapping stands for a list, an item tagged `UNSET` is such a mark.
"""

from operator import is_not

from paceline.config.nodes import APPEND, REPLACE, Node, mapping_of, refuse

UNSET = "!unset"
"""Not for files: made where a mapping with a null becomes a list."""

IDENTITY_KEYS = ("name", "metric", "type")
_STAND_INS = {"name": "type", "type": "name"}


def merge(left: Node, right: Node) -> Node:
    """The left tree with the right one laid over it; both stay as they are."""
    if right.tag in (REPLACE, UNSET):
        return right
    is_unset = left.value is None or left.tag == UNSET
    if is_unset and isinstance(right.value, dict | list):
        # What follows an unset starts anew, also for trees still further to the left.
        return right._replace(tag=REPLACE)
    merged = _merge_values(left, right)
    if merged is None:
        return right
    return left._replace(value=merged, anchored=left.anchored or right.anchored)


def without_nulls(node: Node) -> Node:
    """The tree without the keys that are unset; nulls that are items of lists stay."""
    value = node.value
    if type(value) is dict:
        rest = {key: without_nulls(child) for key, child in value.items() if child.value is not None}
        changed = len(rest) < len(value) or any(rest[key] is not child for key, child in value.items())
        return node._replace(value=rest) if changed else node
    if type(value) is list:
        items = [without_nulls(item) for item in value if item.tag != UNSET]
        changed = len(items) < len(value) or any(map(is_not, items, value))
        return node._replace(value=items) if changed else node
    return node


def identity(item: Node) -> tuple[str, str] | None:
    """The key and the text that identify an item of a list; None if it has no identity."""
    if not isinstance(item.value, dict):
        return None
    for key in IDENTITY_KEYS:
        text = _key_text(item.value, key)
        if text is not None:
            return key, text
    return None


def _merge_values(left: Node, right: Node) -> dict[str, Node] | list[Node] | None:
    """The merged content of two mappings or two lists; None if the right one just replaces."""
    if isinstance(left.value, dict) and isinstance(right.value, dict):
        return _merge_mappings(left.value, right.value)
    if not isinstance(left.value, list) or not isinstance(right.value, list):
        return None
    if right.tag == APPEND:
        return left.value + right.value
    return _merge_items(left.value, right.value)


def _merge_mappings(left: dict[str, Node], right: dict[str, Node]) -> dict[str, Node]:
    result = dict(left)
    for key, value in right.items():
        if key in result:
            _check_append(key, result[key], value)
            value = merge(result[key], value)
        result[key] = value
    return result


def _check_append(key: str, left: Node, right: Node) -> None:
    """Appending to something that is not a list would silently replace it."""
    if (
        right.tag == APPEND
        and left.value is not None
        and left.tag != UNSET
        and not isinstance(left.value, list)
    ):
        kind = "mapping" if isinstance(left.value, dict) else "string"
        if not isinstance(left.value, str | dict):
            kind = "scalar"
        message = f"cannot append a list to the {kind} at {left.mark}; write {key} as a list in both"
        refuse(right.mark, message, key)


def _merge_items(left: list[Node], right: list[Node]) -> list[Node] | None:
    identities = [identity(item) for item in right]
    if not right or None in identities or any(identity(item) is None for item in left):
        return None
    result = list(left)
    index = _index(left)
    for item, found in zip(right, identities, strict=True):
        assert found is not None
        position = index.get(found)
        if position is None:
            index[found] = len(result)
            result.append(item)
        else:
            result[position] = _merge_item(result[position], item, found[0])
    return result


def _merge_item(left: Node, right: Node, key: str) -> Node:
    """Two items with the same identity; the key that says so keeps its first origin."""
    merged = merge(left, right)
    mapping, first = mapping_of(merged), mapping_of(left).get(key)
    if first is None or merged.mark is right.mark or mapping[key].value != first.value:
        return merged
    return merged._replace(value={**mapping, key: first})


def _index(items: list[Node]) -> dict[tuple[str, str], int]:
    """Where each identity is first found, so that merging long lists takes linear time."""
    index: dict[tuple[str, str], int] = {}
    for position, item in enumerate(items):
        assert isinstance(item.value, dict)
        for key in IDENTITY_KEYS:
            text = _key_text(item.value, key)
            if text is None and key in _STAND_INS:
                text = _key_text(item.value, _STAND_INS[key])
            if text is not None:
                index.setdefault((key, text), position)
    return index


def _key_text(mapping: dict[str, Node], key: str) -> str | None:
    node = mapping.get(key)
    if node is None or node.value is None or isinstance(node.value, dict | list):
        return None
    return node.text
