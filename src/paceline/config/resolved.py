"""The merged configuration as YAML, to be kept with a session; read again, it gives the same suite."""

from collections.abc import Callable
from typing import Any

import yaml

from paceline.config.load import Loaded
from paceline.config.nodes import Node, resolve

_SafeDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_SafeDumper):  # type: ignore[misc]
    """Quotes what our reader would not take for a string, which is not what YAML 1.1 would quote."""


def _represent_text(dumper: Any, text: str) -> Any:
    style = None if isinstance(resolve(text), str) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def resolved_text(loaded: Loaded, redact: Callable[[Any], Any]) -> str:
    """What the files came to: one suite, with what `redact` leaves of its values."""
    head = "".join(f"# from {path}\n" for path in loaded.files)
    data = redact(_data(loaded.tree))
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    return head + text


def _data(node: Node) -> Any:
    value = node.value
    if isinstance(value, dict):
        return {name: _data(child) for name, child in value.items()}
    if isinstance(value, list):
        return [_data(child) for child in value]
    if isinstance(value, str) and node.raw is not None:
        return value.replace("$", "$$")  # already put in; a dollar in it must not be taken for a variable's
    return value
