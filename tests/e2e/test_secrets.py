"""What a session must not show, what it must, and that the difference decides no result."""

import json
import os
import sqlite3
import stat
from pathlib import Path

import pytest

from workplace import Workplace

PRIVATE = {
    "SMTP_PASS": "smtp-pass-1",
    "MYSQL_PWD": "mysql-pwd-1",
    "GITHUB_PAT": "github-pat-1",
    "REDIS_URL": "redis://:redis-pw-01@host/0",
    "AZURE_STORAGE_CONNECTION_STRING": "AccountName=a;AccountKey=azure-key-01;EndpointSuffix=x",
    "HTTPS_PROXY": "http://me:proxy-pw-01@proxy:3128",
    "HOME_OF_OTHERS": "private-01",
}
VALUES = (
    "smtp-pass-1",
    "mysql-pwd-1",
    "github-pat-1",
    "redis-pw-01",
    "azure-key-01",
    "proxy-pw-01",
    "private-01",
)
ONE = "entries: [{name: a, script: count.py}]\n"


def texts_below(path: Path) -> dict[str, str]:
    return {str(file): file.read_bytes().decode("latin-1") for file in path.rglob("*") if file.is_file()}


def where_is(values: tuple[str, ...], texts: dict[str, str]) -> list[tuple[str, str]]:
    return [(value, where) for where, text in texts.items() for value in values if value in text]


def test_variables_reach_neither_files_nor_history_nor_site(suite: Workplace) -> None:
    suite.write("suite.yaml", "capture_env: [TEAM]\n" + ONE)
    known = {**PRIVATE, "TEAM": "perf-team", "OMP_NUM_THREADS": "3"}
    done = suite.run("run", "suite.yaml", "--session-name", "s", "--db", "h.db", **known)
    assert done.returncode == 0, done.stdout + done.stderr
    built = suite.run("dashboard", "build", "site", "--db", "h.db", **known)
    assert built.returncode == 0, built.stdout + built.stderr
    left = {name: texts_below(suite.path / name) for name in ("results", "site")}
    left["h.db"] = {"h.db": (suite.path / "h.db").read_bytes().decode("latin-1")}
    for where, texts in left.items():
        assert where_is(VALUES, texts) == []
        assert any("perf-team" in text for text in texts.values()), where
    variables = json.loads((suite.path / "results/s/environment.json").read_text())["variables"]
    assert variables["TEAM"] == "perf-team" and variables["OMP_NUM_THREADS"] == "3"


def test_of_what_an_older_version_stored_nothing_private_is_published(suite: Workplace) -> None:
    suite.write("suite.yaml", ONE)
    suite.run("run", "suite.yaml", "--session-name", "s", "--no-history")
    path = suite.path / "results/s/environment.json"
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "variables": {**PRIVATE, "OMP_NUM_THREADS": "3"}}))
    assert suite.run("history", "import", "results/s", "--db", "h.db").returncode == 0
    assert where_is(VALUES, {"h.db": (suite.path / "h.db").read_bytes().decode("latin-1")}) == []
    with sqlite3.connect(suite.path / "h.db") as connection:
        row = json.dumps({**data, "variables": {**PRIVATE, "OMP_NUM_THREADS": "3"}})
        connection.execute("UPDATE environment SET data = ?", (row,))
    built = suite.run("dashboard", "build", "site", "--db", "h.db")
    assert built.returncode == 0, built.stdout + built.stderr
    site = texts_below(suite.path / "site")
    assert where_is(VALUES, site) == [] and any("OMP_NUM_THREADS" in text for text in site.values())


def test_passwords_of_databases_are_masked_without_a_history(suite: Workplace) -> None:
    suite.write("suite.yaml", "capture_env: ['PACELINE_*']\n" + ONE)
    urls = {
        "--db": "postgresql://me:option-pw-1@127.0.0.1:1/x?password=option-pw-2",
        "PACELINE_DB": "postgresql://me:variable-pw-1@127.0.0.1:1/x?sslmode=disable&password=short",
    }
    words = ("run", "suite.yaml", "--session-name", "s", "--no-history", "--db", urls["--db"])
    done = suite.run(*words, PACELINE_DB=urls["PACELINE_DB"])
    assert done.returncode == 0, done.stdout + done.stderr
    passwords = ("option-pw-1", "option-pw-2", "variable-pw-1", "password=short")
    assert where_is(passwords, texts_below(suite.path / "results")) == []


WEBHOOK = """
sinks:
  - type: webhook
    name: hook
    url: http://me:url-pass-01@127.0.0.1:1/services/T0/path-of-hook
    headers: {Authorization: Bearer bearer-of-it-1, X-Key: header-key-01}
    wait_s: 0
"""


def test_secrets_written_out_in_the_options_of_a_sink_are_not_on_disk(suite: Workplace) -> None:
    suite.write("suite.yaml", WEBHOOK + ONE)
    done = suite.run("run", "suite.yaml", "--session-name", "s", "--no-history")
    written = ("url-pass-01", "T0/path-of-hook", "path-of-hook", "bearer-of-it-1", "header-key-01")
    planned = suite.run("plan", "suite.yaml", "--json")
    texts = {"run": done.stdout + done.stderr, "plan": planned.stdout, **texts_below(suite.path / "results")}
    assert where_is(written, texts) == []
    assert "http://me:***@127.0.0.1:1/***" in texts[str(suite.path / "results/s/plan.json")]
    explained = suite.run("plan", "suite.yaml", "--explain")
    assert where_is(written, {"explain": explained.stdout}) == []


def test_another_number_runs_again_and_a_new_token_does_not(suite: Workplace) -> None:
    text = (
        "entries: [{{name: a, script: count.py, args: '--value {0}', "
        "env: {{MAX_TOKENS: '{0}', T: '${{A_TOKEN}}'}}}}]\n"
    )
    suite.write("suite.yaml", text.format(4096))
    first = suite.run("run", "suite.yaml", "--session-name", "s", "--no-history", A_TOKEN="t0ken-one")
    assert first.returncode == 0, first.stdout + first.stderr
    record = suite.record("s", "a")
    assert record["case"]["formula"] == 2
    assert record["metrics"]["score"]["value"] == 4096 and "4096" in record["command"]
    suite.run("run", "suite.yaml", "--resume", "s", "--no-history", A_TOKEN="t0ken-two")
    assert suite.ran() == ["a"]
    suite.write("suite.yaml", text.format(8192))
    suite.run("run", "suite.yaml", "--resume", "s", "--no-history", A_TOKEN="t0ken-two")
    assert suite.ran() == ["a", "a"]
    assert suite.record("s", "a")["metrics"]["score"]["value"] == 8192


TWO_METRICS = """
import json, pathlib, sys
pathlib.Path(sys.argv[-1], "metrics.json").write_text(json.dumps({"seq4096_s": 1, "seq8192_s": 2}))
"""


def test_metrics_with_a_number_in_their_names_stay_two(suite: Workplace) -> None:
    suite.write("scripts/two.py", TWO_METRICS)
    suite.write("suite.yaml", "entries: [{name: a, script: two.py}]\n")
    known = {"MAX_TOKENS": "4096", "API_KEY": "8192"}
    suite.run("run", "suite.yaml", "--session-name", "s", "--no-history", **known)
    assert {"seq4096_s", "seq8192_s"} <= suite.record("s", "a")["metrics"].keys()


def test_a_variable_of_a_sink_is_not_hidden_by_that_alone(suite: Workplace) -> None:
    suite.write(
        "suite.yaml",
        "sinks: [{name: mlflow, tracking_uri: 'http://${HOST_OF_IT}/', experiment: '${TEAM}'}]\n" + ONE,
    )
    planned = suite.run("plan", "suite.yaml", "--json", TEAM="perf-team-1", HOST_OF_IT="mlflow.example:5000")
    options = json.loads(planned.stdout)["sinks"][0]["options"]
    assert options == {"tracking_uri": "http://mlflow.example:5000/", "experiment": "perf-team-1"}


SINK = """
class Talks:
    def __init__(self, options, context):
        self.context = context
    def open(self, plan):
        import os
        print("using", os.environ["BADGE"], flush=True)
        self.context.say("uses " + os.environ["BADGE"])
        raise RuntimeError("refused: " + os.environ["BADGE"])
"""


def test_send_masks_what_run_masks(suite: Workplace) -> None:
    suite.write("talking.py", SINK)
    suite.write("suite.yaml", "secrets: [BADGE]\nsinks: [{type: 'talking:Talks', name: talks}]\n" + ONE)
    known = {"BADGE": "badge-17", "PYTHONPATH": str(suite.path)}
    done = suite.run("run", "suite.yaml", "--session-name", "s", "--no-history", **known)
    (suite.path / "suite.yaml").unlink()
    sent = suite.run("send", "s", **known)
    assert "sink talks" in sent.stdout
    texts = {"run": done.stdout + done.stderr, "send": sent.stdout + sent.stderr}
    assert where_is(("badge-17",), {**texts, **texts_below(suite.path / "results")}) == []


def test_a_marked_value_that_is_too_short_is_an_error_of_the_plan(suite: Workplace) -> None:
    suite.write("suite.yaml", "secrets: [BADGE]\n" + ONE)
    told = suite.run("plan", "suite.yaml", BADGE="abc")
    assert told.returncode == 2
    assert "suite.yaml:1: secrets[0]: the value of BADGE has fewer than 4 characters" in told.stderr
    assert "abc" not in told.stderr
    assert suite.run("plan", "suite.yaml", BADGE="1234").returncode == 0
    assert suite.run("plan", "suite.yaml").returncode == 0


def test_an_error_is_masked_and_keeps_its_exit_code(suite: Workplace) -> None:
    suite.write(
        "suite.yaml", "secrets: [BADGE]\nentries: [{name: a, script: 'x-${BADGE}-${API_TOKEN}.py'}]\n"
    )
    told = suite.run("plan", "suite.yaml", "--json", BADGE="badge-17", API_TOKEN="t0ken-value")
    assert told.returncode == 2
    assert "x-***-***.py" in told.stderr and "x-***-***.py" in json.loads(told.stdout)["errors"][0]
    lost = suite.run("show", "results/t0ken-value", API_TOKEN="t0ken-value")
    assert lost.returncode == 2 and "***" in lost.stderr and "t0ken-value" not in lost.stderr


@pytest.mark.parametrize("private", [True, False])
def test_a_private_session_lets_nobody_else_in(suite: Workplace, private: bool) -> None:
    suite.write("suite.yaml", f"private: {str(private).lower()}\nartifacts_dir: bulk\n" + ONE)
    umask = os.umask(0o022)
    try:
        done = suite.run("run", "suite.yaml", "--session-name", "s", "--no-history")
    finally:
        os.umask(umask)
    assert done.returncode == 0, done.stdout + done.stderr
    modes = [stat.S_IMODE((suite.path / name / "s").stat().st_mode) for name in ("results", "bulk")]
    assert modes == ([0o700, 0o700] if private else [0o755, 0o755])


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--shard", "hush-hush-99"),
        ("hush-hush-99",),
        ("run", "--jobs", "http://me:hush-hush-99@host/"),
    ],
)
def test_a_mistake_on_the_command_line_is_printed_without_secrets(
    place: Workplace, words: tuple[str, ...]
) -> None:
    done = place.run(*words, MY_TOKEN="hush-hush-99")
    assert done.returncode == 2 and "Usage: paceline" in done.stderr
    assert "hush-hush-99" not in done.stderr and "***" in done.stderr


def test_what_is_wrong_in_an_ab_test_is_printed_without_the_suites_secrets(place: Workplace) -> None:
    place.write("suite.yaml", "secrets: [WORD_OF_MINE]\nentries: [{name: a, script: '${WORD_OF_MINE}.py'}]\n")
    place.write("ab.yaml", "config: suite.yaml\narms: {old: {}, new: {env: {A: '1'}}}\n")
    for words in (("ab", "ab.yaml"), ("ab", "ab.yaml", "--dry-run")):
        done = place.run(*words, WORD_OF_MINE="hush-hush-99")
        assert done.returncode == 2 and "suite.yaml:2: entries[0].script" in done.stderr
        assert "hush-hush-99" not in done.stderr
