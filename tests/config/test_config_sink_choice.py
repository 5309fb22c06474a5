"""Which sinks are on."""

import pytest

from config.config_files import ENTRY, ConfigFiles

SECTIONS = (
    ENTRY
    + """
mlflow:
  tracking_uri: ${MLFLOW_TRACKING_URI}
  experiment: removal
slack:
  webhook_env: HOOK
"""
)
LIST = (
    ENTRY
    + """
sinks:
  - {name: mlflow, tracking_uri: x, enabled: false}
  - {name: alerts, type: slack, channel: "${CHANNEL}"}
"""
)


def chosen(files: ConfigFiles, text: str, *sinks: str, **environ: str) -> list[tuple[str, str]]:
    return [(sink.name, sink.type) for sink in files.load(text, sinks=sinks, environ=environ).config.sinks]


def test_sections_are_off_until_named_or_known(files: ConfigFiles) -> None:
    assert chosen(files, SECTIONS) == []
    assert chosen(files, SECTIONS, HOOK="https://x") == [("slack", "slack")]
    assert chosen(files, SECTIONS, HOOK="") == []
    assert chosen(files, SECTIONS, "mlflow", MLFLOW_TRACKING_URI="u") == [("mlflow", "mlflow")]
    assert chosen(files, SECTIONS, "slack") == [("slack", "slack")]
    assert chosen(files, SECTIONS, "none", HOOK="https://x") == []


def test_a_section_gives_the_options(files: ConfigFiles) -> None:
    loaded = files.load(SECTIONS, sinks=["mlflow"], environ={"MLFLOW_TRACKING_URI": "http://m"})
    assert loaded.config.sinks[0].options == {"tracking_uri": "http://m", "experiment": "removal"}
    assert loaded.config.mlflow is None
    assert loaded.used_variables_in_sinks == ("MLFLOW_TRACKING_URI",)
    blocked = files.load(SECTIONS, sinks=["mlflow"])
    assert blocked.unset["sinks", 0].name == "MLFLOW_TRACKING_URI"


def test_a_section_lies_under_the_sink_of_its_name(files: ConfigFiles) -> None:
    loaded = files.load(SECTIONS + "sinks: [{name: mlflow, experiment: mine, tracking_uri: x}]\n")
    assert loaded.config.sinks[0].options == {"tracking_uri": "x", "experiment": "mine"}


@pytest.mark.parametrize(
    ("sinks", "result"),
    [
        ((), [("alerts", "slack")]),
        (("none",), []),
        (("mlflow",), [("mlflow", "mlflow")]),
        (("slack",), [("alerts", "slack")]),
        (("alerts", "mlflow"), [("mlflow", "mlflow"), ("alerts", "slack")]),
        (("wandb",), [("wandb", "wandb")]),
        (("wandb", "wandb"), [("wandb", "wandb")]),
        (("my_pkg.sinks:Mine",), [("my_pkg.sinks:Mine", "my_pkg.sinks:Mine")]),
    ],
)
def test_choosing_from_the_list(
    files: ConfigFiles, sinks: tuple[str, ...], result: list[tuple[str, str]]
) -> None:
    assert chosen(files, LIST, *sinks, CHANNEL="c") == result


def test_none_goes_with_no_other(files: ConfigFiles) -> None:
    assert files.problems(LIST, sinks=["none", "mlflow"]) == ["--sink none excludes every other --sink"]


def test_variables_of_sinks_are_listed_and_those_of_disabled_ones_are_not(files: ConfigFiles) -> None:
    text = (
        ENTRY
        + "sinks: [{name: a, type: webhook, url: '${U:-${V}}', secret_env: S}, {name: b, x: '${W}', enabled: false}]\n"
    )
    assert files.load(text, environ={"U": "u"}).used_variables_in_sinks == ("U", "V", "S")


def test_mistakes(files: ConfigFiles) -> None:
    assert files.problems(ENTRY + "sinks: 5\n") == ["a.yaml:2: sinks: expected a list, got 5"]
    assert files.problems(ENTRY + "mlflow: 5\n") == ["a.yaml:2: mlflow: expected a mapping, got 5"]
    assert files.problems(ENTRY + "sinks: [{url: x}]\n") == [
        "a.yaml:2: sinks[0]: a sink needs a name or a type"
    ]
    assert files.problems(ENTRY + "sinks: [x]\n") == ["a.yaml:2: sinks[0]: expected a mapping, got 'x'"]
    (problem,) = files.problems(ENTRY + "sinks: [{type: webhook, url: a}, {type: webhook, url: b}]\n")
    assert "type 'webhook' is there twice" in problem


def test_sections_obey_enabled(files: ConfigFiles) -> None:
    assert chosen(files, ENTRY + "mlflow: {enabled: true}\n") == [("mlflow", "mlflow")]
    assert chosen(files, ENTRY + "slack: {enabled: false, x: '${NO}'}\n") == []
    assert chosen(files, ENTRY + "slack: {enabled: false}\n", "slack") == [("slack", "slack")]
