"""Sinks that can only be typing errors are told by the plan; those to come are not held against a suite."""

import sys
from pathlib import Path

import pytest

from paceline import plugins
from paceline.config import sinks
from paceline.config.load import load
from paceline.errors import ConfigError
from paceline.plan import make_plan
from plan.suites import ONE, Planner, problem_of


@pytest.mark.parametrize(
    ("sink", "words"),
    [
        ("{name: mlflw}", "sinks[0].name: there is no sink 'mlflw'; did you mean 'mlflow'?"),
        ("{name: s, type: zzz}", "sinks[0].type: there is no sink 'zzz'; give one of "),
        ("{name: s, type: 'no_such_module.a:B'}", "sinks[0].type: the module 'no_such_module' of the sink"),
        ("{name: s, type: ':B'}", "sinks[0].type: ':B' is not an import path; write 'module:Class'"),
        ("{name: s, type: 'json:'}", "sinks[0].type: 'json:' is not an import path; write 'module:Class'"),
    ],
)
def test_a_sink_that_cannot_be(plan: Planner, sink: str, words: str) -> None:
    text = f"sinks:\n  - {sink}\n{ONE}"
    assert f"suite.yaml:2: {words}" in problem_of(plan, text)


@pytest.mark.parametrize(
    ("sink", "words"),
    [
        ("{name: files}", "sinks[0].directory: this option is missing"),
        ("{name: files, directory: d, formats: [xls]}", "sinks[0].formats[0]: should be 'jsonl' or 'csv'"),
        ("{name: mlflow, experment: e}", "sinks[0].experment: unknown option; did you mean 'experiment'?"),
        (
            "{name: w, type: webhook, url: u, token: t}",
            "sinks[0].token: unknown option; known: url, secret_env",
        ),
        ("{name: files, directory: d, wait_s: -1}", "sinks[0].wait_s: expected"),
    ],
)
def test_the_options_of_our_own_sinks_are_checked(plan: Planner, sink: str, words: str) -> None:
    text = f"sinks:\n  - {sink}\n{ONE}"
    assert f"suite.yaml:2: {words}" in problem_of(plan, text)


def test_options_of_a_sink_that_lacks_a_variable_are_not_missed(plan: Planner) -> None:
    assert plan("sinks: [{name: files, directory: '${NOT_SET_AT_ALL}'}]\n" + ONE).sinks[0].blocked


def test_a_missing_extra_is_told_with_the_remedy(plan: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "_can_import", lambda top: top != "mlflow")
    told = problem_of(plan, "sinks:\n  - {name: mlflow}\n" + ONE)
    assert (
        "suite.yaml:2: sinks[0].name: the sink mlflow needs the mlflow extra: pip install 'paceline[mlflow]'"
        in told
    )


def test_settings_of_a_sink_reach_the_plan(plan: Planner) -> None:
    text = "sinks: [{name: mlflow, only: failures, live: false, timeout_s: 5, wait_s: 0, memory: 1MiB}]\n"
    (found,) = plan(text + ONE).sinks
    assert (found.only, found.live, found.timeout_s, found.wait_s) == (("failures",), False, 5, 0)
    assert found.memory_bytes == 1 << 20 and found.options == {}


def test_a_registered_sink_is_known(plan: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "names", lambda group: ("mlflow", "mine"))
    assert plan("sinks: [{name: mlflow}, {name: mine, colour: red}]\n" + ONE).warnings == ()


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
        make_plan(load([suite / "suite.yaml"], sinks=["mlflw"], environ={}), session="s", environ={})
    assert (
        str(caught.value) == "command line: sinks[0].name: there is no sink 'mlflw'; did you mean 'mlflow'?"
    )


SECRETS = {
    "webhook, url: 'http://h/', secret_env: SIGN": "SIGN",
    "slack, channel_id: C1": "SLACK_BOT_TOKEN",
    "slack, webhook_env: HOOK": "HOOK",
    "gdrive, drive_folder_id: f": "GDRIVE_SERVICE_ACCOUNT",
    "email, host: h, username: me, from: a@b.c, to: a@b.c": "SMTP_PASSWORD",
    "prometheus, pushgateway: 'http://h/', username: me": "PUSHGATEWAY_PASSWORD",
    "github, check: true": "GITHUB_TOKEN",
}


@pytest.mark.parametrize("sink", SECRETS)
def test_a_required_sink_without_its_secret_is_a_mistake(
    plan: Planner, sink: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = SECRETS[sink]
    for one in (name, f"{name}_FILE", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(one, raising=False)
    required = f"sinks: [{{name: {sink}, required: true}}]\n{ONE}"
    with pytest.raises(ConfigError, match=f"set the environment variable {name}, or {name}_FILE"):
        plan(required)
    assert plan(f"sinks: [{{name: {sink}}}]\n{ONE}").sinks
    (tmp_path / "secret").write_text("s")
    assert plan(required, {f"{name}_FILE": str(tmp_path / "secret")}).sinks
    assert plan(required, {name: "s3cr3t-value"}).sinks
