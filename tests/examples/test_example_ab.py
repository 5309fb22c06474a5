"""Two releases of DuckDB on the same queries, with a small budget: every query runs and is compared."""

import json
import shutil
from pathlib import Path

from package_index import need
from workplace import Workplace

EXAMPLE = Path(__file__).parents[2] / "examples/ab"


def test_the_file_of_the_example_is_right(place: Workplace) -> None:
    shutil.copytree(EXAMPLE, place.path, dirs_exist_ok=True)
    done = place.run("ab", "duckdb.yaml", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "arm duckdb-0.9 (baseline): packages duckdb==0.9.2" in done.stdout


def test_a_small_budget(place: Workplace) -> None:
    need("duckdb==0.9.2", "duckdb==1.1.3")
    shutil.copytree(EXAMPLE, place.path, dirs_exist_ok=True)
    suite = (EXAMPLE / "duckdb.yaml").read_text().replace("rows: [500000]", "rows: [20000]")
    suite = suite.replace("runs: 60", "runs: 4") + "null_arm: false\nwarmup: 0\n"
    place.write("small.yaml", suite)
    done = place.run("ab", "small.yaml", "--json", PACELINE_CACHE=str(place.path / "cache"))
    # What two blocks of runs say of times is no test's business; that all was measured and compared is.
    assert done.returncode in (0, 1), done.stderr
    result = json.loads(done.stdout)
    assert {(one["case"], one["metric"]) for one in result["comparisons"]} == {
        ("sales[rows=20000]", f"{query}_cpu_s") for query in ("group", "join", "window", "text")
    }
    assert (result["runs"], result["missing"]) == (4, [])
    assert result["arms"]["duckdb-0.9"]["installed"] == ["duckdb==0.9.2"]
    assert result["arms"]["duckdb-1.1"]["installed"] == ["duckdb==1.1.3"]
