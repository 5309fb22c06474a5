"""Prompts of benchmarks whose published rows come without them: read from the authors' own files, never run.

Templates are texts with fields such as `{context}`. They stand in a JSON file (`config/dataset2prompt.json` of
LongBench, `config/task2prompt.json` of LooGLE), in a Python file under the name of a dictionary (InfiniteBench's
`src/prompt.py:yarn_mistral_templates`), or as text files in a directory (`prompts` of LongBench v2, with `$DOC$` and
the like).
"""

import ast
import json
import re
from collections.abc import Mapping
from pathlib import Path

from paceline.evals.benchmarks.rows import DataError

_FIELD = re.compile(r"\{\{|\}\}|\{(\w+)\}|\$([A-Z]+(?:_[A-Z]+)*)\$")


def prompts_path(place: str) -> Path:
    """The file or directory that a place names."""
    name, _, attribute = place.rpartition(":")
    return Path(name if name and attribute.isidentifier() and name.endswith(".py") else place)


def read_templates(place: str) -> Mapping[str, str]:
    """The template of each task."""
    path = prompts_path(place)
    try:
        if path.is_dir():
            return {file.stem: file.read_text(encoding="utf-8") for file in sorted(path.glob("*.txt"))}
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            found = _assigned(text, place.rpartition(":")[2])
        else:
            found = json.loads(text)
    except OSError as error:
        raise DataError(f"cannot read the prompts {place}: {error.strerror or error}") from error
    except (ValueError, SyntaxError) as error:
        raise DataError(f"{place} holds no prompts that can be read: {error}") from error
    if not isinstance(found, Mapping) or not all(isinstance(one, str) for one in found.values()):
        raise DataError(f"{place} is to be a mapping of tasks to texts")
    return found


def _assigned(text: str, name: str) -> object:
    """The dictionary that a Python file assigns to a name, as far as it is written out."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and any(getattr(one, "id", None) == name for one in node.targets):
            if not isinstance(node.value, ast.Dict):
                break
            items = zip(node.value.keys, node.value.values, strict=True)
            return {
                key.value: value.value
                for key, value in items
                if isinstance(key, ast.Constant) and isinstance(value, ast.Constant)
            }
    raise ValueError(f"it assigns no dictionary to {name!r}")


def fill(template: str, values: Mapping[str, str], document: str) -> tuple[str, str]:
    """A prompt in two parts: up to the end of the document, and what is asked about it.

    A field that the row has nothing for is an error. Nothing within values is replaced.
    """
    parts, end, at = [], 0, 0
    for found in _FIELD.finditer(template):
        parts.append(template[at : found.start()])
        at = found.end()
        name = found.group(1) or found.group(2)
        if name is None:
            parts.append(found.group()[0])
        elif name not in values:
            if found.group(2):  # a text may have dollars of its own
                parts.append(found.group())
                continue
            raise DataError(f"the prompt wants {{{name}}}, which the row has not")
        else:
            parts.append(values[name])
            end = len(parts) if name == document else end
    parts.append(template[at:])
    if not end:
        raise DataError(f"the prompt has no place for the {document}")
    return "".join(parts[:end]), "".join(parts[end:])
