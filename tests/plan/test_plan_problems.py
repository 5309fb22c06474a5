"""All mistakes are told in one go, wherever they are found."""

from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import HealthCheck, given, settings

from config.test_config_fuzz import _BROKEN as BROKEN
from config.test_config_fuzz import ENVIRON
from paceline.config.load import load
from paceline.errors import ConfigError
from paceline.plan import make_plan


def problems_of(suite: Path, text: str, **options: object) -> list[str]:
    file = suite / "suite.yaml"
    file.write_text(dedent(text))
    with pytest.raises(ConfigError) as caught:
        make_plan(load([file], environ={}, lenient=True), session="s", environ={}, **options)  # type: ignore[arg-type]
    return str(caught.value).replace(f"{suite}/suite.yaml:", "").splitlines()


def test_mistakes_of_all_kinds_at_once(suite: Path) -> None:
    problems = problems_of(
        suite,
        """\
        nope: 1
        entries:
          - {name: off, script: no.py, enabled: false}
          - {name: a, script: bench.py, timeout_s: -1}
          - {name: b, script: bench.py, args: "{unknwon}"}
          - {name: c, script: missing.py}
          - {name: d, script: bench.py, args: "'open"}
          - {name: e, script: bench.py, needs: [zz, a, "a[x=1]"], args: "{needs:a}"}
          - {name: f, script: bench.py, needs: [f]}
          - {name: g, script: bench.py, args: "${NO_1} ${NO_2}", timeout_s: "${NO_3}"}
          - {name: h, script: bench.py, needs: [i]}
          - {name: i, script: bench.py, needs: [h]}
        viewer_url_template: "{nix}"
        sinks: [{name: mlflw}]
        """,
    )
    starts = [
        "1: unknown key 'nope'",
        "4: entries[1].timeout_s: expected a number",
        "5: entries[2].args: {unknwon}: unknown placeholder",
        "6: entries[3].script: 'missing.py' is not in",
        "7: entries[4].args: a quote is not closed",
        "8: entries[5].needs[0]: there is no entry or case 'zz'",
        "9: entries[6].needs: a circle: f needs f",
        "10: entries[7].args: environment variable NO_1 is not set",
        "10: entries[7].args: environment variable NO_2 is not set",
        "10: entries[7].timeout_s: environment variable NO_3 is not set",
        "11: entries[8].needs: a circle: h needs i needs h",
        "13: viewer_url_template: {nix}: unknown placeholder",
        "14: sinks[0].name: there is no sink 'mlflw'",
    ]
    assert [problem[: len(start)] for problem, start in zip(problems, starts, strict=True)] == starts


def test_what_faulty_parts_would_have_defined_is_not_missed(suite: Path) -> None:
    problems = problems_of(
        suite,
        """\
        datasets: [{name: d, formats: 5}]
        paths: [{name: p}]
        script_base_dir: [x]
        entries:
          - {name: a, script: only_there.py, args: "{p} {dataset:d,t}"}
          - {script: bench.py}
          - {name: b, script: bench.py, needs: [maybe_the_one_without_a_name]}
        """,
    )
    assert [problem.split(": ")[1] for problem in problems] == [
        "datasets[0].formats", "paths[0]", "script_base_dir", "entries[1]",
    ]  # fmt: skip


def test_an_entry_that_is_there_twice_is_told_once(suite: Path) -> None:
    text = """\
    entries:
      - {name: a, script: bench.py}
      - {name: a, script: bench.py}
      - {name: b, script: missing.py}
    """
    twice, missing = problems_of(suite, text)
    assert "is there twice" in twice
    assert missing.startswith("4: entries[2].script: ")


def test_a_need_of_an_entry_with_a_wrong_matrix_is_no_second_mistake(suite: Path) -> None:
    text = """\
    entries:
      - {name: a, script: bench.py, matrix: {x: [1], exclude: [{x: 1}]}}
      - {name: b, script: bench.py, needs: [a, "a[x=1]"]}
    """
    (problem,) = problems_of(suite, text)
    assert problem.startswith("2: entries[0].matrix: has no cells left")


def test_an_unset_variable_for_all_is_told_once(suite: Path) -> None:
    text = """\
    env: {A: "${NO_1}"}
    entries: [{name: a, script: bench.py}, {name: b, script: bench.py}, {name: c, script: missing.py}]
    """
    assert [problem.partition(": ")[2].partition(": ")[0] for problem in problems_of(suite, text)] == [
        "env.A", "entries[2].script",
    ]  # fmt: skip


def test_a_selection_of_what_is_faulty_tells_its_faults(suite: Path) -> None:
    text = """\
    entries:
      - {name: a, script: bench.py, timeout_s: -1}
      - {name: b, script: missing.py}
    """
    (problem,) = problems_of(suite, text, only=["a"])
    assert problem.startswith("2: entries[0].timeout_s: ")


@pytest.mark.parametrize(
    "text", ["entries: 5\n", "entries: [\n", "nope: 1\n", "entries: [{name: a}]\nx: [\n"]
)
def test_little_left_to_look_at(suite: Path, text: str) -> None:
    file = suite / "suite.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as strict:
        load([file], environ={})
    with pytest.raises(ConfigError) as lenient:
        make_plan(load([file], environ={}, lenient=True), session="s", environ={})
    assert str(strict.value) == str(lenient.value)


def test_without_leniency_problems_are_raised_at_once(suite: Path) -> None:
    (suite / "suite.yaml").write_text("nope: 1\nentries: [{name: a, script: missing.py}]\n")
    with pytest.raises(ConfigError) as caught:
        load([suite / "suite.yaml"], environ={})
    assert len(caught.value.problems) == 1


@settings(max_examples=200, suppress_health_check=list(HealthCheck))
@given(data=BROKEN)
def test_leniency_hides_nothing(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "suite.yaml"
    file.write_bytes(data)
    try:
        load([file], environ=ENVIRON)
    except ConfigError as error:
        strict = error
    else:
        return
    with pytest.raises(ConfigError) as caught:
        make_plan(load([file], environ=ENVIRON, lenient=True), session="s", environ=ENVIRON)
    told = {(problem.line, problem.message) for problem in caught.value.problems}
    assert told >= {(problem.line, problem.message) for problem in strict.problems}
