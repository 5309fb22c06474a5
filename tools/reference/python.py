"""Writes docs/python-api.md from the sources: `python -m tools.reference.python docs/python-api.md`.

The sources are parsed, not imported: the page needs none of the optional packages and is the same on every Python.
"""

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from inspect import cleandoc
from pathlib import Path
from textwrap import dedent, indent

_SOURCE = Path(__file__).parents[2] / "src"
_INTRODUCTION = """\
# Python

<!-- Made by `make reference` from the sources; edit their docstrings instead. -->

What may be imported from Paceline; everything else may change without notice. A name is imported when it is first
used, so `import paceline` costs a benchmark nearly nothing. What does not come with the core says which extra it needs.
"""
_QUOTED = re.compile(r'(: |-> )"([^"]+)"')
_FACTORY = re.compile(r"field\(default_factory=([\w.]+)\)")
_ARGUMENT = re.compile(r"    (\w+): (.*)")

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Assign


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the page: a module, and what goes before its names in headings."""

    module: str
    label: str
    title: str = ""
    more: str = ""


SECTIONS = (
    Section(module="paceline.emit", label="emit", more="See [writing benchmarks](writing-benchmarks.md)."),
    Section(module="paceline", label="paceline", more="The types are told in [concepts](concepts.md)."),
    Section(
        module="paceline.pytest_plugin",
        label="",
        title="pytest fixtures",
        more="The plugin is found by pytest itself. See [pytest](pytest.md) and [Dask](dask.md).",
    ),
    Section(module="paceline.history", label="history", more="See [the history](storage.md)."),
    Section(module="paceline.judge", label="judge", more="See [statistics](statistics.md)."),
    Section(module="paceline.curate", label="curate", more="See [curation pipelines](curation.md)."),
    Section(module="paceline.curate.alm", label="alm", more="See [curation](curation.md)."),
    Section(module="paceline.evals", label="evals", more="See [evals](evals.md)."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A parsed module."""

    name: str
    text: str
    tree: ast.Module

    @classmethod
    def read(cls, name: str) -> "Source":
        path = _SOURCE.joinpath(*name.split("."))
        text = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text("utf-8")
        return cls(name=name, text=text, tree=ast.parse(text))

    def defined(self, name: str) -> "Definition | None":
        nodes = (node for node in self.tree.body if isinstance(node, Definition))
        return next((node for node in nodes if _name(node) == name), None)

    def words_after(self, node: ast.stmt) -> str:
        """The string under an assignment, which is what stands for its docstring."""
        after = self.tree.body[self.tree.body.index(node) + 1 :]
        if after and isinstance(after[0], ast.Expr) and isinstance(after[0].value, ast.Constant):
            return str(after[0].value.value)
        return ""

    def imported(self) -> dict[str, str]:
        """Each name taken from another module, those for type checkers included, and that module."""
        nodes = (node for node in ast.walk(self.tree) if isinstance(node, ast.ImportFrom))
        return {alias.asname or alias.name: str(node.module) for node in nodes for alias in node.names}

    def public_names(self) -> list[str]:
        """`__all__`, else what is imported for type checkers, else the fixtures."""
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                return [str(name) for name in ast.literal_eval(node.value)]
        checked = [node for node in self.tree.body if isinstance(node, ast.If)]
        lazy = [alias.name for node in checked for one in node.body for alias in getattr(one, "names", ())]
        return lazy or [node.name for node in self.tree.body if isinstance(node, Function) and _fixture(node)]


def reference() -> str:
    """The whole page."""
    parts = [_INTRODUCTION, *(part for section in SECTIONS for part in _module(section))]
    return re.sub("\n{3,}", "\n\n", "\n".join(parts)).rstrip() + "\n"


def _module(section: Section) -> Iterator[str]:
    source = Source.read(section.module)
    yield f"## {section.title or section.module}\n"
    yield f"{_prose(ast.get_docstring(source.tree) or '')}{section.more}\n"
    for name in sorted((name for name in source.public_names() if name[0] != "_"), key=str.lower):
        home = source if source.defined(name) else Source.read(source.imported().get(name, source.name))
        node = home.defined(name)
        if node is not None:
            yield f"### {section.label + '.' if section.label else ''}{name}\n"
            yield from _definition(node, home)


def _name(node: Definition) -> str:
    return ast.unparse(node.targets[0]) if isinstance(node, ast.Assign) else node.name


def _definition(node: Definition, source: Source) -> Iterator[str]:
    if isinstance(node, ast.Assign):
        yield f"```py\n{ast.unparse(node)}\n```\n"
        yield _prose(source.words_after(node))
    elif isinstance(node, ast.ClassDef):
        yield f"```py\n{_class_text(node, source)}\n```\n"
        yield _prose(ast.get_docstring(node) or "")
        yield from _methods(node, source)
    else:
        if not _fixture(node):
            yield f"```py\n{_signature(node, source)}\n```\n"
        yield _prose(ast.get_docstring(node) or "")


def _class_text(node: ast.ClassDef, source: Source) -> str:
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    inside = [
        *_fields(node),
        *(_signature(one, source) for one in _functions(node) if one.name == "__init__"),
    ]
    body = indent("\n".join(inside), "    ")
    return f"class {node.name}{f'({bases})' if bases else ''}{':' if body else ''}\n{body}".rstrip()


def _fields(node: ast.ClassDef) -> Iterator[str]:
    for one in node.body:
        if isinstance(one, ast.AnnAssign) and not ast.unparse(one.target).startswith("_"):
            match one.annotation:
                case ast.Subscript(value=ast.Name("Annotated"), slice=ast.Tuple([type_, *_])):
                    one.annotation = type_  # the rest is for the JSON Schema
            text = _QUOTED.sub(r"\1\2", ast.unparse(one).replace("'", '"'))
            yield _FACTORY.sub(r"\1()", text).replace("= dict()", "= {}")
        elif isinstance(one, ast.Assign) and not ast.unparse(one.targets[0]).startswith("_"):
            yield ast.unparse(one).replace("'", '"')


def _methods(node: ast.ClassDef, source: Source) -> Iterator[str]:
    listed = [one for one in _functions(node) if not one.name.startswith("_") and not _overload(one)]
    lines = [f"- {_method(one, source)}" for one in listed]
    if lines:
        yield "\n".join(lines) + "\n"


def _method(node: Function, source: Source) -> str:
    told = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
    text = (
        " ".join(_signature(node, source).split()).replace("( ", "(").replace(", )", ")").replace(" )", ")")
    )
    shown = text.removeprefix("def ").replace("(self, ", "(").replace("(self)", "()")
    if any(ast.unparse(one) == "property" for one in node.decorator_list):
        shown = shown.replace("()", "", 1)
    return f"`{shown}`{': ' + told if told else ''}"


def _signature(node: Function, source: Source) -> str:
    lines = source.text.splitlines()[node.lineno - 1 : node.body[0].lineno]
    last = lines[-1][: node.body[0].col_offset]
    head = dedent("\n".join([*lines[:-1], last])).strip().removesuffix(":")
    return _QUOTED.sub(r"\1\2", head)


def _functions(node: ast.ClassDef) -> list[Function]:
    return [one for one in node.body if isinstance(one, Function)]


def _overload(node: Function) -> bool:
    return any(ast.unparse(one) == "overload" for one in node.decorator_list)


def _fixture(node: Function) -> bool:
    return any(ast.unparse(one).startswith("pytest.fixture") for one in node.decorator_list)


def _prose(docstring: str) -> str:
    """A docstring as Markdown: its list of arguments becomes a list, its indented example a block."""
    paragraphs = [_paragraph(part) for part in cleandoc(docstring).split("\n\n") if part]
    return "".join(f"{part}\n\n" for part in paragraphs)


def _paragraph(text: str) -> str:
    head, *lines = text.splitlines()
    return f"{head}\n\n{_arguments(lines)}" if head in ("Args:", "Returns:", "Raises:") else text


def _arguments(lines: Sequence[str]) -> str:
    items: list[str] = []
    for line in lines:
        found = _ARGUMENT.fullmatch(line)
        if found:
            items.append(f"- `{found[1]}`: {found[2]}")
        else:
            items.append(f"  {line.strip()}")
    return "\n".join(items)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference(), encoding="utf-8")
