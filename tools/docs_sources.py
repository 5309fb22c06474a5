"""A hook of the documentation's build: files of the repository that a page links to become part of the site.

A link such as `../examples/ab/duckdb.yaml` works where the pages are read beside the sources. On the site it leads to a
copy under `sources/`, as text, which a browser shows. A link to a directory is left as the words it stands on.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./([^)#\s]+)\)")


def on_files(files: Files, *, config: Any) -> Files:
    top = _top(config)
    pages = [file.content_string for file in files.documentation_pages()]
    linked = {found[2] for page in pages for found in _OUTSIDE.finditer(page)}
    for path in sorted(linked):
        if (top / path).is_file():
            files.append(File.generated(config, _place(path), abs_src_path=str(top / path)))
    return files


def on_page_markdown(markdown: str, *, files: Files, config: Any, **_: Any) -> str:
    def lead(found: re.Match[str]) -> str:
        words, path = found[1], found[2]
        if files.get_file_from_path(_place(path)):
            return f"[{words}]({_place(path)})"
        # What is not there stays as it is, for the strict build to refuse.
        return words if (_top(config) / path).is_dir() else found[0]

    return _OUTSIDE.sub(lead, markdown)


def _top(config: Any) -> Path:
    return Path(config["config_file_path"]).parent


def _place(path: str) -> str:
    # Hidden directories do not become part of a site.
    return f"sources/{path.lstrip('.')}.txt"
