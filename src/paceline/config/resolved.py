"""The merged configuration as YAML, to be kept with a session."""

from collections.abc import Callable
from typing import Any

import yaml

from paceline.config.load import Loaded
from paceline.config.nodes import plain

_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def resolved_text(loaded: Loaded, redact: Callable[[Any], Any]) -> str:
    """What the files came to: one suite, with what `redact` leaves of its values."""
    head = "".join(f"# from {path}\n" for path in loaded.files)
    data = redact(plain(loaded.tree))
    text: str = yaml.dump(data, Dumper=_DUMPER, sort_keys=False, allow_unicode=True, width=110)
    return head + text
