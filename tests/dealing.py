"""Which process gets which test: one gets all tests of a file, so that what they share is made once.

Not by the marks `xdist_group`: pytest 9.2 does not see the name that pytest-xdist 3.8 gives to a marked test, so these
were dealt out one by one, and both processes started the server that only one was to start.
"""

from xdist.scheduler import LoadScopeScheduling

# What files share: a server and libraries that take many seconds to start, and a directory at a certain path.
TOGETHER = {
    "tests/contract/test_sinks.py": "mlflow",
    "tests/e2e/test_sinks_mlflow.py": "mlflow",
    "tests/sinks/test_sink_mlflow.py": "mlflow",
    "tests/compat/test_frozen_session.py": "frozen session",
    "tests/compat/test_frozen_resume.py": "frozen session",
}
# Their tests share little, take long, and are the last.
APART = "tests/test_docs.py"


class ByFile(LoadScopeScheduling):
    """Deals out files in their order: those with the most tests first would leave the longest ones for the end."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if file == APART:
            return nodeid
        return "models" if file.startswith("tests/evals_models/") else TOGETHER.get(file, file)
