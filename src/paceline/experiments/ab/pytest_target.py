"""Runs pytest and tells how long each test took; needs pytest, and of Paceline only `emit`."""

import argparse
import sys
from typing import Any

from paceline import emit

NOTHING_COLLECTED = 5


class Durations:
    """A pytest plugin: the time of each test's body, by the test's name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" and report.passed:
            self.seconds[f"{report.nodeid.partition('::')[2]}.duration_s"] = report.duration


def main() -> int:
    """Run the tests of one target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-m", dest="markers", default="")
    parser.add_argument("--benchmark-results-path", required=True)
    parser.add_argument("targets", nargs="+")
    options = parser.parse_args()
    import pytest

    durations = Durations()
    markers = ["-m", options.markers] if options.markers else []
    code = int(pytest.main(["-q", "-p", "no:cacheprovider", *markers, *options.targets], plugins=[durations]))
    emit.metrics({"num_tests": len(durations.seconds), **durations.seconds})
    return 0 if code == NOTHING_COLLECTED else code


if __name__ == "__main__":
    sys.exit(main())
