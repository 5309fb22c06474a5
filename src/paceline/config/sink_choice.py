"""Which sinks are on: those of `sinks:`, the sections `mlflow:`, `wandb:` and `slack:`, and those named by `--sink`."""

from collections.abc import Iterator, Mapping

from paceline.config.merge import merge
from paceline.config.nodes import Mark, Node, items_of
from paceline.config.templates import names_in
from paceline.errors import Problem

COMMAND_LINE = Mark("command line", 0)
NONE = "none"
SECTIONS = ("mlflow", "wandb", "slack")


def choose_sinks(root: dict[str, Node], chosen: tuple[str, ...], environ: Mapping[str, str]) -> list[Problem]:
    """Make `sinks` the list of sinks to use; the sections go into it."""
    sections = {key: root.pop(key) for key in SECTIONS if key in root and isinstance(root[key].value, dict)}
    configured = root.get("sinks")
    if configured is not None and not isinstance(configured.value, list):
        return []
    items = _with_sections(items_of(configured), sections, chosen, environ)
    problems = []
    if chosen:
        if NONE in chosen and len(set(chosen)) > 1:
            message = "--sink none excludes every other --sink"
            problems.append(Problem(file="", line=0, path="", message=message))
        items = [] if NONE in chosen else _select(items, chosen)
    if items or configured is not None:
        mark = configured.mark if configured else items[0].mark
        root["sinks"] = Node([_labelled(item) for item in items], mark)
    return problems


def variables_of_sinks(sinks: Node) -> Iterator[str]:
    """Names of the variables that sinks use, as `${VAR}` or as the value of a key such as `webhook_env`."""
    value = sinks.value
    if isinstance(value, str):
        yield from names_in(value)
    elif isinstance(value, list):
        for item in value:
            yield from variables_of_sinks(item)
    elif isinstance(value, dict):
        for key, child in value.items():
            if key.endswith("_env") and isinstance(child.value, str) and "$" not in child.value:
                yield child.value
            yield from variables_of_sinks(child)


def _with_sections(
    items: list[Node], sections: dict[str, Node], chosen: tuple[str, ...], environ: Mapping[str, str]
) -> list[Node]:
    """The sinks with each section laid under the sink that it describes, or added if it is on."""
    result = list(items)
    for name, section in sections.items():
        mapping = section.value
        assert isinstance(mapping, dict)
        item = section._replace(value={"name": Node(name, section.mark, text=name), **mapping}, tag=None)
        position = next((index for index, sink in enumerate(result) if _is_called(sink, name)), None)
        if position is not None:
            result[position] = merge(item, result[position])
        elif name in chosen or _is_on(name, mapping, environ):
            result.append(item)
    return result


def _is_on(name: str, section: dict[str, Node], environ: Mapping[str, str]) -> bool:
    """Whether a section is used without being named: by its `enabled`, else only Slack whose webhook is known."""
    if "enabled" in section:
        return True
    variable = section.get("webhook_env")
    return name == "slack" and (variable is None or bool(environ.get(variable.text)))


def _select(items: list[Node], chosen: tuple[str, ...]) -> list[Node]:
    selected = []
    for item in items:
        if any(_is_called(item, name) for name in chosen):
            assert isinstance(item.value, dict)
            selected.append(
                item._replace(value={key: node for key, node in item.value.items() if key != "enabled"})
            )
    for name in dict.fromkeys(chosen):
        if not any(_is_called(item, name) for item in items):
            selected.append(Node({"name": Node(name, COMMAND_LINE, text=name)}, COMMAND_LINE))
    return selected


def _is_called(item: Node, name: str) -> bool:
    value = item.value
    return isinstance(value, dict) and any(
        key in value and value[key].text == name for key in ("name", "type")
    )


def _labelled(item: Node) -> Node:
    """A sink with both `name` and `type`; either stands in for the other."""
    value = item.value
    if not isinstance(value, dict) or ("name" in value) == ("type" in value):
        return item
    other = value["type"] if "type" in value else value["name"]
    return item._replace(value={"name": other, "type": other, **value})
