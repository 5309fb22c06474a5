"""The syntax trees of our own files, each read and walked once however many rules look at them."""

import ast
import gc
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    """What a file says."""
    # Half of the time would go into looking for garbage among so many nodes, of which none is.
    was_on = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(path.read_text())
    finally:
        if was_on:
            gc.enable()


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All of it, piece by piece."""
    return tuple(ast.walk(tree_of(path)))
