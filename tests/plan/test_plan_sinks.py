"""Sinks that can only be typing errors are told by the plan; those to come are not held against a suite."""

import sys
from pathlib import Path

import pytest

from paceline import plugins
from paceline.config.load import load
from paceline.errors import ConfigError
from paceline.plan import make_plan
from plan.suites import ONE, Planner, problem_of


@pytest.mark.parametrize(
    ("sink", "words"),
    [
        ("{name: mlflw}", "sinks[0].name: there is no sink 'mlflw'; did you mean 'mlflow'?"),
        ("{name: s, type: zzz}", "sinks[0].type: there is no sink 'zzz'; give one of mlflow, wandb,"),
        ("{name: s, type: 'no_such_module.a:B'}", "sinks[0].type: the module 'no_such_module' of the sink"),
        ("{name: s, type: ':B'}", "sinks[0].type: ':B' is no import path; write 'module:Class'"),
        ("{name: s, type: 'json:'}", "sinks[0].type: 'json:' is no import path; write 'module:Class'"),
    ],
)
def test_a_sink_that_cannot_be(plan: Planner, sink: str, words: str) -> None:
    text = f"sinks:\n  - {sink}\n{ONE}"
    assert f"suite.yaml:2: {words}" in problem_of(plan, text)


def test_a_sink_that_is_to_come_is_a_warning(plan: Planner) -> None:
    found = plan("sinks: [{name: mlflow}, {name: g, type: gdrive}]\n" + ONE)
    assert found.warnings == (
        "sink 'mlflow' is not part of this version; results stay in the session's files",
        "sink 'gdrive' is not part of this version; results stay in the session's files",
    )


def test_a_registered_sink_is_known(plan: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "names", lambda group: ("mlflow", "mine"))
    assert plan("sinks: [{name: mlflow}, {name: mine}]\n" + ONE).warnings == ()


def test_an_import_path_is_found_and_not_imported(
    plan: Planner, suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (suite / "sinks_of_this_test.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(suite)
    assert plan("sinks: [{name: s, type: 'sinks_of_this_test:Sink'}]\n" + ONE).warnings == ()
    assert "sinks_of_this_test" not in sys.modules


def test_an_unset_type_is_told_as_such(plan: Planner) -> None:
    assert plan("sinks: [{name: s, type: '${KIND_OF_SINK}'}]\n" + ONE).sinks[0].blocked


def test_a_sink_of_the_command_line_names_no_file(suite: Path) -> None:
    (suite / "suite.yaml").write_text(ONE)
    with pytest.raises(ConfigError) as caught:
        make_plan(load([suite / "suite.yaml"], sinks=["slak"], environ={}), session="s", environ={})
    assert str(caught.value) == "command line: sinks[0].name: there is no sink 'slak'; did you mean 'slack'?"
