"""A masker and a benchmark in files beside a suite, carried out by a real model."""

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from evals_models import tiny_model
from workplace import Workplace

PAGE = Path(__file__).parents[2] / "docs" / "evals.md"
SUITE = """\
evals:
  models: [{model}]
  attentions: [dense, {{name: fourth, maskers: [{{kind: './my_masker.py:EveryNth', step: 4}}], prefill: sparse}}]
  benchmarks: ['./my_quiz.py:Capitals']
  generation_kwargs: {{max_new_tokens: 4}}
"""


def from_page(name: str) -> str:
    """The file as the documentation has it."""
    found = re.search(rf'^```python title="{name}"\n(.*?)^```', PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_the_ten_lines_of_the_documentation_run_a_real_model(tmp_path: Path) -> None:
    place = Workplace(tmp_path)
    tiny_model.build(tmp_path / "model")
    masker = from_page("my_masker.py")
    assert len(masker.split("\n\n\n")) == 2 and len(masker.replace("\n\n\n", "\n").splitlines()) <= 12
    place.write("my_masker.py", masker)
    place.write("my_quiz.py", from_page("my_quiz.py"))
    place.write("suite.yaml", SUITE.format(model=tmp_path / "model"))
    ran = place.run("evals", "run", "suite.yaml", "--no-history", "--json")
    assert ran.returncode == 0, ran.stderr
    dense, fourth = json.loads(ran.stdout)["results"]
    assert dense["density"] == 1 and 0.2 < fourth["density"] < 0.45, "every fourth key, and the first"

    place.write("my_masker.py", masker.replace("== 0", "<= 1"))
    planned = place.run("evals", "plan", "suite.yaml")
    assert "again: attention.maskers[0].code_sha256 differs" in planned.stdout
    assert planned.stdout.endswith("2 stubs, 1 done\n")
    for text, message in (
        ("EveryNth", "has no 'EveryMth'"),
        ("my_masker.py", "there is no file"),
        ("step: 4", "unknown parameter 'stop'"),
    ):
        other = {"EveryNth": "EveryMth", "my_masker.py": "no_masker.py", "step: 4": "stop: 4"}[text]
        place.write("suite.yaml", SUITE.format(model=tmp_path / "model").replace(text, other))
        refused = place.run("evals", "plan", "suite.yaml")
        assert refused.returncode == 2 and message in refused.stderr and "Traceback" not in refused.stderr
