"""The nightly suite by its plan: what each profile runs, what it asks for, and that nothing we ship is missing."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

from paceline.metrics import describe
from paceline.session.request import Request, prepare

REPOSITORY = Path(__file__).parents[2]
BENCHMARKS = REPOSITORY / "benchmarks"
SUITE = BENCHMARKS / "nightly.yaml"
EXECUTORS = {"local", "ray_data", "ray_actors", "xenna"}
PIPELINES = {"alm", "removal", "exact_dedup", "fuzzy_dedup", "score_filter", "modifier", "common_crawl"}


@cache
def plan_of(tag: str) -> Any:
    only = (f"tag:{tag}",) if tag else ()
    return prepare(Request(configs=(SUITE,), only=only, session_name="s"))


def entries_of(tag: str) -> set[str]:
    return {case.entry for case in plan_of(tag).cases}


def test_smoke_has_each_kind_of_benchmark() -> None:
    curation = {f"{name}_smoke" for name in PIPELINES}
    own = {
        f"{name}_smoke" for name in ("overhead", "history", "findings", "sinks", "pytest_plugin", "backfill")
    }
    others = {"dask_smoke", "evals_smoke", "evals_executor_smoke", "judge_speed"}
    assert entries_of("smoke") == curation | own | others
    assert {
        case.params["executor"] for case in plan_of("smoke").cases if case.entry == "alm_smoke"
    } == EXECUTORS


def test_a_night_has_every_pipeline_on_every_executor() -> None:
    found = {(case.entry, case.params.get("executor")) for case in plan_of("nightly").cases}
    assert {(pipeline, executor) for pipeline in PIPELINES for executor in EXECUTORS} <= found


def test_every_case_is_of_some_profile() -> None:
    chosen = {case.name for tag in ("smoke", "nightly", "scale") for case in plan_of(tag).cases}
    assert chosen == {case.name for case in plan_of("").cases}


def test_only_the_data_that_is_needed_is_made() -> None:
    made = {tag: {setup.name for setup in plan_of(tag).setups} for tag in ("smoke", "nightly", "scale")}
    assert made["smoke"] == {"manifest_5", "documents_2000", "warcs_100", "tiny_model"}
    assert made["nightly"] == {"manifest_5", "documents_20000", "warcs_2000", "asv_200", "tiny_model"}
    assert made["scale"] == {"manifest_2000", "documents_500000", "asv_2000"}


def test_requirements_are_on_work_and_never_on_speed() -> None:
    for case in plan_of("").cases:
        assert case.requirements, case.name
        judged = [one.metric for one in case.requirements if describe(one.metric).direction]
        assert judged == [], case.name


def test_no_sink_is_told_unless_one_is_configured(tmp_path: Path) -> None:
    assert plan_of("").sinks == ()
    more = tmp_path / "sinks.yaml"
    more.write_text("sinks:\n  - {type: files, directory: delivered}\n")
    assert len(prepare(Request(configs=(SUITE, more), session_name="s")).sinks) == 1


def is_program(path: Path) -> bool:
    tree = ast.parse(path.read_text())
    return any(isinstance(node, ast.If) and "__main__" in ast.unparse(node.test) for node in tree.body)


def test_every_benchmark_that_we_ship_is_in_the_suite() -> None:
    shipped = {path.name for path in BENCHMARKS.glob("*.py") if is_program(path)}
    shipped |= {path.name for path in (BENCHMARKS / "scripts").glob("*_benchmark.py")}
    run = {Path(case.script or "").name for case in plan_of("").cases}
    assert shipped - run == {"test_benchmark.py"}  # it is for trying out the runner itself
    modules = {path.stem.removeprefix("test_") for path in (BENCHMARKS / "dask").glob("test_*.py")}
    assert {case.params["module"] for case in plan_of("nightly").cases if case.entry == "dask"} == modules


def test_scripts_understand_the_arguments_they_are_given() -> None:
    """Every option in the plan is one that the script's text names; that they work is for the runs to show."""
    for case in plan_of("").cases:
        text = "".join(path.read_text() for path in Path(case.script).parent.glob("*.py"))
        own = case.argv[case.argv.index(case.script) + 1 :]
        for option in re.findall(r"^(--[\w-]+)", "\n".join(own), re.MULTILINE):
            assert f'"{option}"' in text, f"{case.name}: {option}"


def test_measured_code_is_that_of_the_repository() -> None:
    """Also in the trees of a bisection, for which `{repo_dir}` is another."""
    for case in plan_of("").cases:
        assert case.env["PYTHONPATH"] == f"{REPOSITORY}/src"


def test_the_demo_plans() -> None:
    plan = prepare(Request(configs=(REPOSITORY / "examples/demo.yaml",), session_name="s"))
    assert {case.entry for case in plan.cases} == {
        *("alm_pipeline", "exact_dedup", "fuzzy_dedup", "matrix_multiply", "clean_text")
    }
    assert not plan.warnings and not plan.sinks
