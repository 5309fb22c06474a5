"""Sinks that were written for NeMo Curator's framework run unchanged, beside the configuration that names them."""

import json
from typing import Any

import pytest

from workplace import Workplace

OLDER = """
import json
from typing import Any
from runner.sinks.sink import Sink

class MyCustomSink(Sink):
    def __init__(self, config: dict[str, Any]):
        super().__init__(config)
        self.config = config
        self.enabled = config.get("enabled", True)
        if not config.get("api_endpoint"):
            raise ValueError("MyCustomSink: api_endpoint is required")

    def initialize(self, session_name: str, env_data: dict[str, Any]) -> None:
        self._send(["initialize", self.config["name"], session_name, bool(env_data["hostname"])])

    def process_result(self, result: dict[str, Any]) -> None:
        self._send([result["name"], result["success"], result["script_metrics"]["score"], result["returncode"]])

    def finalize(self) -> None:
        self._send(["finalize"])

    def _send(self, data) -> None:
        with open(self.config["api_endpoint"], "a") as file:
            file.write(json.dumps(data) + "\\n")
"""
NEWER = """
from __future__ import annotations
import json
from typing import TYPE_CHECKING, Any
from runner.sinks.sink import Sink

if TYPE_CHECKING:
    from runner.entry import Entry
    from runner.session import Session

class MyCustomSink(Sink):
    name = "my_custom"

    def __init__(self, sink_config: dict[str, Any]):
        super().__init__(sink_config)
        self.path = sink_config["api_endpoint"]

    def initialize(self, session_name: str, session: Session, env_dict: dict[str, Any]) -> None:
        names = [entry.name for entry in session.entries]
        self._send(["initialize", session_name, names, session.viewer_url, bool(env_dict["python_version"])])

    def register_benchmark_entry_starting(self, result_dict: dict[str, Any], benchmark_entry: Entry) -> None:
        self._send(["starting", result_dict["name"]])

    def register_benchmark_entry_finished(self, result_dict: dict[str, Any], benchmark_entry: Entry) -> None:
        more = benchmark_entry.get_sink_data(self.name).get("additional_metrics", [])
        shown = {name: result_dict["metrics"][name] for name in more}
        unmet = sorted(result_dict["requirements_not_met"])
        self._send(["finished", benchmark_entry.name, result_dict["success"], result_dict["exit_code"], shown, unmet])

    def finalize(self) -> None:
        self._send(["finalize"])

    def _send(self, data) -> None:
        with open(self.path, "a") as file:
            file.write(json.dumps(data) + "\\n")
"""
SUITE = """
sinks: [{name: my_custom, api_endpoint: told}]
entries:
  - name: a
    script: count.py
    args: --value 7
    sink_data: [{name: my_custom, additional_metrics: [score]}]
    requirements: [{metric: score, max_value: 5}]
"""


def run(suite: Workplace, sink: str, text: str = SUITE) -> tuple[str, list[Any]]:
    suite.write("runner/sinks/my_custom_sink.py", sink)
    suite.write("suite.yaml", text)
    done = suite.run("run", "suite.yaml", "--session-name", "s", "--no-history")
    assert done.returncode == 1, done.stdout + done.stderr  # the requirement
    told = suite.path / "told"
    return done.stdout, list(map(json.loads, told.read_text().splitlines())) if told.exists() else []


def test_a_sink_of_the_older_interface(suite: Workplace) -> None:
    output, told = run(suite, OLDER)
    assert "messages wait" not in output
    assert told == [["initialize", "my_custom", "s", True], ["a", False, 7, 0], ["finalize"]]
    assert suite.run("send", "s").stdout == "session s: sink my_custom: 0 delivered, nothing waits\n"


def test_a_sink_of_the_newer_interface(suite: Workplace) -> None:
    output, told = run(suite, NEWER)
    assert "messages wait" not in output
    assert told == [
        ["initialize", "s", ["a"], None, True],
        ["starting", "a"],
        ["finished", "a", False, 0, {"score": 7}, ["score"]],
        ["finalize"],
    ]


def test_the_frameworks_own_base_class_wins_where_it_is_there(suite: Workplace) -> None:
    suite.write(
        "runner/sinks/sink.py", "class Sink:\n    def __init__(self, config): config['name'] = 'theirs'\n"
    )
    _, told = run(suite, OLDER)
    assert told[0] == ["initialize", "theirs", "s", True]


def test_a_sink_by_import_path_finds_the_base_class_too(suite: Workplace) -> None:
    suite.write("elsewhere.py", OLDER)
    suite.write("suite.yaml", SUITE.replace("my_custom, api", "mine, type: 'elsewhere:MyCustomSink', api"))
    done = suite.run("run", "suite.yaml", "--no-history", PYTHONPATH=str(suite.path))
    assert "messages wait" not in done.stdout
    assert len((suite.path / "told").read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "session_name: str, env_data: dict[str, Any]",
            "session_name",
            "initialize(session_name) does not take 2 or 3",
        ),
        ("def process_result", "def process", "MyCustomSink has neither process_result() nor register_"),
        (
            "from runner.sinks.sink",
            "import no_such_thing\nfrom runner.sinks.sink",
            "No module named 'no_such_thing'",
        ),
        ('config.get("api_endpoint")', "None", "ValueError: MyCustomSink: api_endpoint is required"),
    ],
)
def test_a_sink_that_fits_no_interface_is_one_clear_line(
    suite: Workplace, old: str, new: str, words: str
) -> None:
    assert old in OLDER
    output, told = run(suite, OLDER.replace(old, new))
    (line,) = [line for line in output.splitlines() if "sink my_custom: " in line]
    assert words in line and line.endswith("3 of 3 messages wait: paceline send s")
    assert told == []


def test_our_own_sinks_are_not_taken_from_a_checkout_of_the_framework(suite: Workplace) -> None:
    suite.write("runner/sinks/files_sink.py", "raise RuntimeError('not ours')\n")
    _, _ = run(
        suite, OLDER, SUITE.replace("{name: my_custom, api_endpoint: told}", "{name: files, directory: out}")
    )
    assert (suite.path / "out/s.jsonl").exists()
