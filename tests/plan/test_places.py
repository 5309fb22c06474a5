"""Paths are the same from wherever a suite is planned, and `~` is the home directory."""

import os
from pathlib import Path

import pytest

from paceline.config.load import load
from paceline.config.paths import normalise
from paceline.errors import ConfigError
from paceline.model import Plan
from paceline.plan import find_results_dir, make_plan
from plan.suites import Planner, args_of, entry

TEXT = """
results_dir: ../suite/r/../results
paths: [{name: here, host_path: "{config_dir}/x"}]
entries:
  - name: a
    script: ./bench.py
    script_base_dir: ../suite/scripts
    args: "{here} {repo_dir} {config_dir}"
    cwd: ../suite
  - {name: b, command: ./scripts/bench.py, cwd: .}
"""


def plan_file(path: str) -> Plan:
    return make_plan(load([Path(path)], environ={}), session="s", environ={})


def test_a_plan_is_the_same_from_another_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outside_container: None
) -> None:
    suite, other = tmp_path / "suite", tmp_path / "other"
    (suite / "scripts").mkdir(parents=True)
    other.mkdir()
    (suite / "scripts" / "bench.py").write_text("")
    (suite / "s.yaml").write_text(TEXT)
    monkeypatch.chdir(suite)
    first = plan_file("s.yaml")
    monkeypatch.chdir(other)
    second = plan_file("../suite/s.yaml")
    assert [case.fingerprint for case in first.cases] == [case.fingerprint for case in second.cases]
    assert [case.argv for case in first.cases] == [case.argv for case in second.cases]
    assert first.directory == second.directory == suite / "results" / "s"
    assert first.settings.config_files == second.settings.config_files
    texts = [*second.cases[0].argv, *[case.cwd or "" for case in second.cases]]
    assert not any(".." in text for text in texts)


def test_a_link_is_not_followed_and_not_misread(tmp_path: Path) -> None:
    (tmp_path / "real" / "inner").mkdir(parents=True)
    (tmp_path / "real" / "file").write_text("")
    (tmp_path / "link").symlink_to("real/inner")
    assert normalise(f"{tmp_path}/link/x") == f"{tmp_path}/link/x"
    assert normalise(f"{tmp_path}/real/inner/../file") == f"{tmp_path}/real/file"
    # Without the link's own `..` this would be another file, which is not there.
    assert os.path.exists(normalise(f"{tmp_path}/link/../file"))  # noqa: PTH110
    assert normalise(f"{tmp_path}/none/../there") == f"{tmp_path}/there"


def test_the_home_directory(plan: Planner, suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(suite / "home"))
    (suite / "home" / "own").mkdir(parents=True)
    (suite / "home" / "own" / "mine.py").write_text("")
    text = """
results_dir: ~/results
artifacts_dir: ~/artifacts
script_base_dir: ~/own
paths: [{name: p, host_path: ~/p}]
datasets: {d: {t: ~/d}}
entries: [{name: a, script: mine.py, args: "{p} {dataset:d,t} ~/kept", cwd: ~/w}]
"""
    home = f"{suite}/home"
    found = plan(text, results_dir=None)
    assert found.directory == Path(home, "results", "night")
    assert found.artifacts_dir == Path(home, "artifacts")
    assert found.cases[0].argv[1] == f"{home}/own/mine.py"
    assert args_of(found) == [f"{home}/p", f"{home}/d", "~/kept"]
    assert found.cases[0].cwd == f"{home}/w"


def test_artifacts_beside_the_results(plan: Planner, suite: Path) -> None:
    assert plan("artifacts_dir: '{results_dir}/a'\n" + entry()).artifacts_dir == suite / "results" / "a"
    with pytest.raises(ConfigError, match="only known in a session"):
        plan("artifacts_dir: '{session_dir}/a'\n" + entry())


@pytest.mark.parametrize("text", ["''", '"${EMPTY}"', "${EMPTY}"])
def test_an_empty_directory_is_refused(suite: Path, text: str) -> None:
    (suite / "s.yaml").write_text(f"results_dir: {text}\n" + entry())
    with pytest.raises(ConfigError, match="results_dir: must not be empty"):
        find_results_dir(load([suite / "s.yaml"], environ={"EMPTY": ""}))


def test_the_name_of_a_session_may_depend_on_where_results_are_kept(plan: Planner, suite: Path) -> None:
    asked: list[Path | str] = []

    def name(place: Path | str) -> str:
        asked.append(place)
        return "found"

    made = plan("results_dir: '{config_dir}/r'\n" + entry(), session=name, results_dir=None)
    assert (made.session, made.directory, asked) == ("found", suite / "r" / "found", [suite / "r"])
    assert plan(entry(), session=name, results_dir="s3://bucket/r").settings.results_url == asked[-1]
    with pytest.raises(ConfigError, match="nope"):
        plan("results_dir: '{nope}/r'\n" + entry(), session=name, results_dir=None)
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("script_base_dir: /no/such\nentries: [{name: a, script: bench.py}]\n", "1: script_base_dir: "),
        (
            "entries:\n  - name: a\n    script: bench.py\n    script_base_dir: /no/such\n",
            "4: entries[0].script_base_dir: ",
        ),
    ],
)
def test_a_directory_of_scripts_that_is_not_there_is_an_error(
    plan: Planner, suite: Path, text: str, expected: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        plan(text)
    assert str(caught.value) == f"{suite}/suite.yaml:{expected}'/no/such' is no directory; create it"


def test_a_directory_of_scripts_that_nobody_uses_may_be_missing(plan: Planner) -> None:
    assert plan("script_base_dir: /no/such\nentries: [{name: a, command: 'true'}]\n").cases


def test_a_directory_of_scripts_is_not_in_the_session(plan: Planner) -> None:
    with pytest.raises(ConfigError, match=r"'\{session_dir\}' is known only in a session"):
        plan("script_base_dir: '{session_dir}'\nentries: [{name: a, script: bench.py}]\n")


def test_a_repository_that_is_none_is_said_once_where_it_is_used(plan: Planner, suite: Path) -> None:
    text = "entries:\n  - {name: a, command: 'true', args: '{curator_repo_dir}/x {repo_dir}'}\n"
    (warning,) = plan(text).warnings
    assert warning == (
        f"{suite}/suite.yaml:2: entries[0].args: {{curator_repo_dir}} is {suite}, as no git working tree is around it"
    )
    assert plan("entries: [{name: a, command: 'true'}]\n").warnings == ()
    (suite / ".git").mkdir()
    assert plan(text).warnings == ()
