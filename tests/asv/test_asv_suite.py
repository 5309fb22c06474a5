"""Suites of asv as we find and measure them, held against asv itself."""

import json
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from paceline import guest
from paceline.asv.labels import from_repr
from paceline.asv.measure import Skipped, Trial
from paceline.asv.suite import Benchmark, find_all

OWN_SUITE = Path(__file__).parents[2] / "benchmarks" / "asv_suite" / "suite"


def asked(suite: Path, answer: Path) -> dict[str, Any]:
    """What a process that has imported a suite says of it."""
    words = ["paceline.asv.child:discover", str(suite), str(answer)]
    subprocess.run([sys.executable, guest.__file__, *words], check=True, timeout=120)
    told: dict[str, Any] = json.loads(answer.read_text())
    return told


def test_benchmarks_cells_and_versions_are_those_of_asv(tmp_path: Path) -> None:
    """The versions, too, so that a history that was imported from asv goes on."""
    program = "import sys; from asv_runner.discovery import _discover; _discover(sys.argv[1:])"
    theirs_file = tmp_path / "theirs.json"
    subprocess.run([sys.executable, "-c", program, str(OWN_SUITE), str(theirs_file)], check=True, timeout=120)
    theirs = {one["name"]: one for one in json.loads(theirs_file.read_text())}
    ours = {one["name"]: one for one in asked(OWN_SUITE, tmp_path / "ours.json")["benchmarks"]}
    assert ours.keys() == theirs.keys()
    assert len(ours) > 50
    for name, one in ours.items():
        assert one["cells"] == [list(cell) for cell in product(*theirs[name]["params"])], name
        assert one["param_names"] == theirs[name]["param_names"], name
        assert one["version"] == theirs[name]["version"], name
        assert one["rounds"] == theirs[name].get("rounds", 1), name
        assert one["timeout_s"] == theirs[name].get("timeout"), name


def test_what_cannot_be_imported_is_named_by_its_line(tmp_path: Path) -> None:
    suite = tmp_path / "benchmarks"
    (suite / "part").mkdir(parents=True)
    (suite / "good.py").write_text("def time_it(): pass\n")
    (suite / "bad.py").write_text("\nimport there_is_no_such_module\n")
    (suite / "worse.py").write_text("def time_it(:\n")
    (suite / "part" / "__init__.py").write_text("raise RuntimeError('first line\\nsecond line')\n")
    (suite / "odd.py").write_text(
        "class Odd:\n    def __init__(self):\n        1 / 0\n    def time_it(self): pass\n"
    )
    told = asked(suite, tmp_path / "told.json")
    assert [one["name"] for one in told["benchmarks"]] == ["good.time_it"]
    faults = {Path(one["file"]).name: (one["line"], one["message"]) for one in told["faults"]}
    module = "benchmarks.bad cannot be imported"
    assert faults["bad.py"] == (
        2,
        f"{module}: ModuleNotFoundError: No module named 'there_is_no_such_module'",
    )
    assert faults["worse.py"][0] == 1
    assert faults["__init__.py"][1].endswith("RuntimeError: first line")
    assert faults["odd.py"] == (3, "benchmarks.odd.time_it: ZeroDivisionError: division by zero")


class Steps:
    """Notes what runs, in order."""

    number, repeat, rounds, warmup_time = 0, 0, 1, 0.0

    def __init__(self) -> None:
        self.ran: list[str] = []

    def setup(self, *_: Any) -> None:
        self.ran.append("setup")

    def teardown(self, *_: Any) -> None:
        self.ran.append("teardown")

    def time_it(self, *words: Any) -> None:
        self.ran.append(f"call{words or ''}")


def made(owner: Any, name: str, kind: str = "time") -> Benchmark:
    method = getattr(owner, name)
    return Benchmark(name, kind, method, (method, owner))


def test_each_call_gets_a_fresh_set_up_and_all_is_torn_down() -> None:
    steps = Steps()
    steps.number, steps.repeat = 2, 2
    found = Trial(made(steps, "time_it"), (), None).run()
    assert len(found.samples) == 2 and found.details == {"number": 2}
    one = ["setup", "call", "teardown"]
    assert steps.ran == one * 4


def test_the_cache_comes_before_the_parameters() -> None:
    steps = Steps()
    steps.number, steps.repeat = 1, 1
    Trial(made(steps, "time_it"), ("a",), "cache").run()
    assert "call('cache', 'a')" in steps.ran


def test_numbers_of_calls_are_found_out_without_a_set_up() -> None:
    class Plain:
        repeat, rounds, warmup_time, sample_time = 3, 1, 0.0, 0.001

        def time_it(self) -> None:
            sum(range(10))

    found = Trial(made(Plain(), "time_it"), ()).run()
    assert len(found.samples) == 3 and found.details["number"] > 10


def test_a_set_up_may_say_that_a_benchmark_does_not_apply() -> None:
    class Refusing(Steps):
        def setup(self, *_: Any) -> None:
            raise NotImplementedError("no such machine")

    with pytest.raises(Skipped, match="no such machine"):
        Trial(made(Refusing(), "time_it"), ()).run()


def test_a_benchmark_that_is_not_implemented_has_failed() -> None:
    class Broken(Steps):
        def time_it(self, *_: Any) -> None:
            raise NotImplementedError("of the code that is measured")

    steps = Broken()
    with pytest.raises(NotImplementedError, match="of the code"):
        Trial(made(steps, "time_it"), ()).run()
    assert steps.ran == ["setup", "teardown"]


def test_what_is_tracked_is_a_number() -> None:
    class Tracking:
        def track_nothing(self) -> float:
            return float("nan")

        def track_text(self) -> str:
            return "many"

        def track_it(self) -> int:
            return 3

    assert Trial(made(Tracking(), "track_it", "track"), ()).run().value == 3
    with pytest.raises(Skipped):
        Trial(made(Tracking(), "track_nothing", "track"), ()).run()
    with pytest.raises(TypeError, match="str, not a number"):
        Trial(made(Tracking(), "track_text", "track"), ()).run()


def test_a_size_is_that_which_asv_takes() -> None:
    from asv_runner.benchmarks.mem import MemBenchmark

    class Sizes:
        def mem_it(self) -> list[str]:
            return [str(number) for number in range(100)]

    sizes = Sizes()
    theirs = MemBenchmark("mem_it", sizes.mem_it, [sizes.mem_it, sizes])
    assert Trial(made(sizes, "mem_it", "mem"), ()).run().value == theirs.run()


def test_raw_code_is_timed_in_a_process_with_its_variables() -> None:
    class Raw:
        number, repeat, rounds, warmup_time = 1, 2, 1, 0.0
        env = {"WHAT": "0.01"}  # noqa: RUF012

        def timeraw_it(self, word: str) -> tuple[str, str]:
            return f'time.sleep(float(os.environ["{word}"]))', 'import os, time; """\'"""'

    found = Trial(made(Raw(), "timeraw_it", "timeraw"), ("WHAT",)).run()
    assert len(found.samples) == 2 and min(found.samples) >= 0.01


def test_parameters_that_are_left_out_have_no_case(tmp_path: Path) -> None:
    suite = tmp_path / "left_out_benchmarks"
    suite.mkdir()
    (suite / "__init__.py").write_text(
        "def time_it(a, b): pass\n"
        "time_it.params = [[1, 2], ['x', 'x']]\n"
        "time_it.skip_params = [(1, 'x')]\n"
        "def time_hidden(): pass\n"
        "time_hidden.skip_benchmark = True\n"
    )
    (one,) = find_all(str(suite)).benchmarks.values()
    assert [labels for labels, _ in one.cells()] == [("2", "'x' (0)"), ("2", "'x' (1)")]
    assert one.param_names == ["param1", "param2"]
    assert one.values_of(["2", "'x' (1)"]) == (2, "x")
    with pytest.raises(LookupError, match="has no parameters"):
        one.values_of(["3", "'x'"])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10", 10),
        ("1.5", 1.5),
        ("'a'", "a"),
        ("True", True),
        ("None", None),
        ("<f>", "<f>"),
        ("1e400", "1e400"),
    ],
)
def test_parameters_are_data_again(text: str, value: object) -> None:
    assert from_repr(text) == value


def test_a_suite_needs_nothing_but_its_own_python(tmp_path: Path) -> None:
    """Neither our packages nor our place are there: no site-packages at all."""
    suite = tmp_path / "benchmarks"
    suite.mkdir()
    (suite / "__init__.py").write_text(
        "import importlib.util\n"
        "def track_it():\n"
        "    return sum(importlib.util.find_spec(one) is not None for one in ('numpy', 'click', 'asv'))\n"
    )
    python = [sys.executable, "-I", "-S", guest.__file__]
    words = ["paceline.asv.child:run", str(suite), "track_it", "[]", str(tmp_path / "caches"), "60"]
    env = {"PACELINE_RESULTS_PATH": str(tmp_path / "results")}
    done = subprocess.run([*python, *words], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "results/metrics.json").read_text()) == {"value": 0}
