"""The tests of a directory as the cases that they are: `python -m paceline.pytest_plugin.collecting FILE DIRECTORY`."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from paceline.pytest_plugin.cases import case_of
from paceline.record.codec import dump
from paceline.record.redact import Redactor, secret_values


class Collected:
    """A pytest plugin that keeps what was collected."""

    def __init__(self) -> None:
        self.items: list[pytest.Item] = []
        self.root = Path()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        self.items, self.root = list(items), session.config.rootpath


def main(file: str, directory: str) -> int:
    """Write the tests with their names; those that another plugin would leave out are among them."""
    collected = Collected()
    alone = ["-n", "0"] if find_spec("xdist") else []
    code = int(pytest.main(["--collect-only", "-q", *alone, directory], plugins=[collected]))
    if code:
        return code
    redactor, top = Redactor(secret_values(os.environ)), Path(directory).resolve()
    tests = []
    for item in collected.items:
        case = case_of(item, redactor)
        path = item.path.resolve().relative_to(top).as_posix()
        tests.append({"path": path, "name": item.name, "entry": case.entry, "params": dict(case.params)})
    prefix = os.path.relpath(top, collected.root.resolve())
    Path(file).write_bytes(dump({"prefix": "" if prefix == "." else f"{prefix}/", "tests": tests}))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
