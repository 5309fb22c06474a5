"""The script of a case whose tests pytest runs: it starts `pytest_plugin.arm` with the Python of an arm."""

import os
import sys

if __name__ == "__main__":
    # Modules beside this file have names that others have too, and tests must not get them instead.
    if sys.path[0] == os.path.dirname(os.path.abspath(__file__)):  # noqa: PTH100, PTH120
        del sys.path[0]
    from importlib import import_module

    # By its name: here the plugin is not a layer above us but all that runs.
    sys.exit(import_module("paceline.pytest_plugin.arm").main())
