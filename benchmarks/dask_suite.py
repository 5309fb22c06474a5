"""A part of the Dask suite as one benchmark: pytest runs it, and what its tests measured becomes metrics.

    python benchmarks/dask_suite.py --benchmark-results-path out --modules futures array --scale smallest

The tests' own records are in `dask.db` in the results directory, for `paceline history merge`.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

from paceline import emit
from paceline.history import open_store

REPOSITORY = Path(__file__).parents[1]
METRICS = ("duration", "peak_memory", "compute_time", "transfer_time", "disk_spill_time")


def main() -> int:
    args = parse_args()
    results = Path(emit.results_path())
    emit.params({"modules": args.modules, "tests": args.tests, "scale": args.scale})
    database = results / "dask.db"
    database.unlink(missing_ok=True)
    code = subprocess.run(pytest_command(args, database), cwd=REPOSITORY, check=False).returncode
    found = read_metrics(database) if database.exists() else {}
    # Names are metrics of one record here, so a test's name becomes a part of them.
    named = {f"{test}.{metric}": value for test, own in found.items() for metric, value in own.items()}
    emit.metrics({"is_success": code == 0, "num_tests": len(found), **named})
    return code


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add = parser.add_argument
    add("--benchmark-results-path", type=Path, required=True, help="directory for the result files")
    add("--modules", nargs="+", required=True, help="such as futures for benchmarks/dask/test_futures.py")
    add("--tests", help="only tests that fit this expression of pytest's -k")
    add("--scale", default="smallest", help="as --dask-scale")
    add("--data-dir", type=Path, help="where tables are kept for the next run")
    return parser.parse_args()


def pytest_command(args: argparse.Namespace, database: Path) -> list[str]:
    files = [f"benchmarks/dask/test_{module}.py" for module in args.modules]
    options = ["--benchmark", "--benchmark-db", str(database), "--dask-scale", args.scale]
    options += ["-k", args.tests] if args.tests else []
    options += ["--dask-data-dir", str(args.data_dir.absolute())] if args.data_dir else []
    return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files, *options]


def read_metrics(database: Path) -> dict[str, dict[str, float]]:
    """What each test measured, by the test's name in letters, digits and underscores."""
    found: dict[str, dict[str, float]] = {}
    with open_store(database, create=False) as store:
        for series in store.iter_columns():
            test = re.sub(r"\W+", "_", series.case_key.rpartition("::")[2].removeprefix("test_")).strip("_")
            if series.metric in METRICS:
                found.setdefault(test, {})[series.metric] = series.points[-1].value
    return found


if __name__ == "__main__":
    sys.exit(main())
