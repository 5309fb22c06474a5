"""The configuration kept with a session is a suite itself."""

import tempfile
from pathlib import Path

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from paceline.config.explain import resolved_text
from paceline.config.load import load
from paceline.record.redact import Redactor


def round_trip(tmp_path: Path, text: str, environ: dict[str, str]) -> None:
    first = tmp_path / "first.yaml"
    first.write_text(text)
    loaded = load([first], environ=environ)
    second = tmp_path / "second.yaml"
    second.write_text(resolved_text(loaded, lambda data: data))
    assert load([second], environ=environ).config == loaded.config


def test_merged_files_read_again_are_the_same_suite(tmp_path: Path) -> None:
    round_trip(
        tmp_path,
        """
results_dir: "${WHERE}/results"
default_timeout_s: ${TIMEOUT}
entries:
  - name: "1e3"
    script: a.py
    args: --price ${PRICE} --literal $$x
    version: "010"
    env: {A: "true", B: "null", C: "0x1f", D: "~"}
    requirements: [{metric: m, exact_value: "no"}, {metric: n, min_value: 1.5, tolerance: 5%}]
    matrix: {size: [1, 2], mode: ["1", "two"]}
""",
        {"WHERE": "/a$b", "TIMEOUT": "30", "PRICE": "5$"},
    )


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1))
def test_any_text_survives(text: str) -> None:
    with tempfile.TemporaryDirectory() as where:
        quoted = yaml.safe_dump(text, allow_unicode=True, default_style='"').strip().replace("$", "$$")
        suite = f"entries:\n  - name: a\n    command: [x]\n    description: {quoted}\n"
        round_trip(Path(where), suite, {})


MASKED_SUITE = """
secrets: [PLAIN]
run_reason: for pl4nted-value
env: {COPIED: pl4nted-value}
sinks: [{name: type, type: 'my:name', url: pl4nted-value, auth: {name: pl4nted-value, pl4nted-value: 1}}]
entries:
  - name: needs
    command: [run, --token, "${TOKEN}"]
    env: {name: pl4nted-value}
    requirements: [{metric: m, exact_value: pl4nted-value, severity: warn}]
    matrix: {name: [pl4nted-value], size: [1]}
    sink_data: [{name: type, ping: {name: pl4nted-value}}]
  - {name: severity, command: [x], needs: [needs]}
"""
CONFIG_WORDS = [
    "name",
    "type",
    "needs",
    "secrets",
    "severity",
    "warn",
    "entries",
    "matrix",
    "command",
    "size",
]


@settings(max_examples=25)
@given(st.lists(st.sampled_from(CONFIG_WORDS), max_size=4))
@example(CONFIG_WORDS)
def test_secrets_that_are_keys_of_ours_leave_a_suite(words: list[str]) -> None:
    environ = {"TOKEN": "pa$$-pl4nted"}
    with tempfile.TemporaryDirectory() as where:
        first, second = Path(where, "first.yaml"), Path(where, "second.yaml")
        first.write_text(MASKED_SUITE)
        loaded = load([first], environ=environ)
        redactor = Redactor([*words, "pl4nted-value", "pa$$-pl4nted"])
        text = resolved_text(loaded, redactor.data)
        second.write_text(text)
        again = load([second], environ={}).config
    assert "pl4nted" not in text
    assert [entry.name for entry in again.entries] == ["needs", "severity"]
    assert again.entries[1].needs == ["needs"] and again.secrets == ["PLAIN"]
    assert again.entries[0].requirements[0].severity == "warn"
    assert again.entries[0].matrix is not None and again.entries[0].matrix.axes == {
        "name": ["***"],
        "size": [1],
    }
    assert (again.sinks[0].name, again.sinks[0].type) == ("type", "my:name")
