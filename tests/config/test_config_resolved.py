"""The configuration kept with a session is a suite itself."""

import tempfile
from pathlib import Path

import yaml
from hypothesis import given
from hypothesis import strategies as st

from paceline.config.load import load
from paceline.config.resolved import resolved_text


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
