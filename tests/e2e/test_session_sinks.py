"""What of a session reaches sinks, and what of it must reach nobody."""

import json
from pathlib import Path

import pytest

from workplace import Workplace


def test_planted_secrets_are_nowhere_in_what_a_session_leaves(suite: Workplace) -> None:
    secrets = {
        "MY_API_TOKEN": "tok-5f0c9a77",
        "DB_PASSWORD": "pa$$w0rd with space",
        "WEBHOOK_ADDRESS": "http://127.0.0.1:9/hook/abcdef",
        "NAMED_ONE": "quiet-value-31",
    }
    suite.write(
        "scripts/leak.py",
        "import os, sys\nfrom paceline import emit\n"
        "for name in ('MY_API_TOKEN', 'DB_PASSWORD', 'WEBHOOK_ADDRESS', 'NAMED_ONE'):\n"
        "    text = os.environ[name]\n"
        "    print(text); print(text, file=sys.stderr)\n"
        "    for piece in text: sys.stdout.write(piece); sys.stdout.flush()\n"
        "    emit.params({'used': text, text: 1}); emit.metrics({'label_' + name: text, 'is_success': True})\n"
        "raise SystemExit('failed with ' + os.environ['MY_API_TOKEN'])\n",
    )
    suite.write(
        "suite.yaml",
        """
secrets: [NAMED_ONE]
sinks: [{type: 'my_sinks:Modern', name: hook, url: '${WEBHOOK_ADDRESS}'}]
entries:
  - name: leak
    script: leak.py
    args: ['--token', '${MY_API_TOKEN}', '--password', '${DB_PASSWORD}']
    env: {COPIED: '${NAMED_ONE}'}
""",
    )
    suite.write("my_sinks.py", SINK)
    environ = {**secrets, "PYTHONPATH": str(suite.path)}
    done = suite.run("run", "suite.yaml", "--session-name", "s", **environ)
    plan = suite.run("plan", "suite.yaml", "--explain", **environ)
    plan_json = suite.run("plan", "suite.yaml", "--json", **environ)
    assert suite.record("s", "leak")["status"] == "failed"
    texts = {"stdout": done.stdout, "stderr": done.stderr, "plan": plan.stdout, "plan_json": plan_json.stdout}
    script_output = suite.path / "results/s/leak/benchmark_results"
    for path in (suite.path / "results/s").rglob("*"):
        if path.is_file() and not path.is_relative_to(script_output):
            texts[str(path)] = path.read_text(errors="replace")
    for where, text in texts.items():
        for name, value in secrets.items():
            assert value not in text, f"{name} is in {where}"


SINK = """
import json, os, pathlib
LOG = pathlib.Path(os.environ["LEDGER"] + ".sink")
def say(*words):
    with LOG.open("a") as log:
        log.write(json.dumps(words, default=str) + "\\n")

class Modern:
    def __init__(self, options, context): say("options", dict(options), context.session)
    def open(self, plan): say("open", plan.session)
    def record(self, record): say("record", record.case.name, record.status)
    def close(self, report): say("close", report.ok)

class ResultDict:
    def __init__(self, config): self.config = config
    def initialize(self, session_name, env_data): say("initialize", session_name, "hostname" in env_data)
    def process_result(self, result):
        say("process", result["name"], result["success"], result["script_metrics"]["score"])
        say("keys", sorted(result), len(result["tasks"]), pathlib.Path(result["stdouterr_file"]).is_file())
    def finalize(self): say("finalize")

class RunLogger:
    def start_session(self, session_name): say("start_session", session_name)
    def start_run(self, run_name): say("start_run", run_name)
    def log_params(self, params): say("params", params["value"])
    def log_metrics(self, metrics): say("metrics", metrics["score"])
    def log_artifact(self, path): say("artifact", pathlib.Path(path).exists())
    def end_run(self, success): say("end_run", success)
    def end_session(self, success): say("end_session", success)

class Raises:
    def __init__(self, options, context): pass
    def open(self, plan): raise RuntimeError("cannot open")
    def record(self, record): raise ValueError("cannot record")
    def close(self, report): pass
"""


def test_custom_sinks_of_all_three_interfaces_see_every_record(suite: Workplace) -> None:
    suite.write("my_sinks.py", SINK)
    suite.write(
        "suite.yaml",
        """
sinks:
  - {type: 'my_sinks:Modern', name: modern, colour: red}
  - {type: 'my_sinks:ResultDict', name: dicts}
  - {type: 'my_sinks:RunLogger', name: logger}
  - {type: 'my_sinks:Raises', name: raises}
  - {type: 'my_sinks:Modern', name: off, enabled: false, key: '${NOT_SET_ANYWHERE}'}
entries:
  - {name: a, script: count.py, args: --value 7}
""",
    )
    done = suite.run("run", "--no-history", "suite.yaml", "--session-name", "s", PYTHONPATH=str(suite.path))
    assert done.returncode == 0, done.stdout + done.stderr
    said = [json.loads(line) for line in Path(f"{suite.path}/ledger.sink").read_text().splitlines()]
    assert ["options", {"colour": "red"}, "s"] in said
    for words in (["open", "s"], ["record", "a", "passed"], ["close", True]):
        assert said.count(words) == 1
    for words in (["initialize", "s", True], ["process", "a", True, 7], ["finalize"]):
        assert said.count(words) == 1
    for words in (
        ["start_run", "a"],
        ["params", 7],
        ["metrics", 7],
        ["end_run", True],
        ["end_session", True],
    ):
        assert said.count(words) == 1
    keys = ["command", "exec_time_s", "name", "returncode", "script_metrics", "script_params"]
    assert ["keys", [*keys, "stdouterr_file", "success", "tasks", "timeout"], 1, True] in said
    assert ["artifact", False] not in said
    output = done.stdout + done.stderr
    told = [line.strip() for line in output.splitlines() if "sink raises" in line]
    assert told == [
        "sink raises: open failed: RuntimeError: cannot open; 3 of 3 messages wait: paceline send s"
    ]


@pytest.mark.parametrize("kind", ["my_sinks:Raises", "my_sinks:NotThere"])
def test_a_required_sink_that_fails_fails_the_session(suite: Workplace, kind: str) -> None:
    suite.write("my_sinks.py", SINK)
    suite.write(
        "suite.yaml",
        f"sinks: [{{type: '{kind}', name: needed, required: true}}]\nentries: [{{name: a, script: count.py}}]\n",
    )
    done = suite.run("run", "--no-history", "suite.yaml", "--session-name", "s", PYTHONPATH=str(suite.path))
    assert done.returncode == 1
    assert "sink needed is required and did not get everything" in done.stdout
    assert json.loads((suite.path / "results/s/report.json").read_text())["ok"] is False


def test_an_unset_variable_of_a_sink_fails_the_plan_and_the_run_alike(suite: Workplace) -> None:
    sink = "{name: hook, type: webhook, url: '${NOT_SET_HERE}'%s}"
    entry = "entries: [{name: a, script: count.py}]\n"
    suite.write("suite.yaml", f"sinks: [{sink % ''}]\n{entry}")
    for command in ("plan", "run"):
        done = suite.run(command, "suite.yaml", "--session-name", "s")
        assert done.returncode == 2, done.stdout
        assert "suite.yaml:1: sinks[0].url: environment variable NOT_SET_HERE is not set" in done.stderr
    assert suite.ran() == [] and not (suite.path / "results").exists()
    assert suite.run("run", "suite.yaml", "--sink", "none", "--no-history").returncode == 0
    suite.write("suite.yaml", f"sinks: [{sink % ', enabled: false'}]\n{entry}")
    assert suite.run("run", "suite.yaml", "--no-history").returncode == 0
