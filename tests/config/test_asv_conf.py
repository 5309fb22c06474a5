"""`asv.conf.json`: comments, what is taken from it, and what is said about the rest."""

from pathlib import Path

import pytest

from paceline.config.asv_conf import find_conf, read_conf
from paceline.errors import ConfigError

TEXT = """{
    // A comment with a "quote.
    "version": 1,
    "project": "words", /* and
    another */
    "project_url": "https://example.invalid//words",
    "repo": "..",
    "branches": ["main", "v2"],
    "pythons": ["3.11"],
    "benchmark_dir": "perf",
    "default_benchmark_timeout": 90,
\t"build_command": ["python setup.py build"],
    "matrix": {
        "req": {"numpy": ["1.26", ""], "six": [null]},
        "env": {"THREADS": ["1", "2"]},
        "env_nobuild": {"MODE": ["fast", null]},
    },
    "html_dri": "html",
}
"""


def test_what_is_taken_from_it(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    path = tmp_path / "repo" / "asv.conf.json"
    path.write_text(TEXT)
    conf = read_conf(path)
    assert conf.benchmark_dir == tmp_path / "repo" / "perf"
    assert (conf.project, conf.branches, conf.timeout_s) == ("words", ("main", "v2"), 90)
    assert conf.repo_path == tmp_path.resolve()
    assert conf.requirements == {"numpy": ("1.26", ""), "six": ("",)}
    assert conf.build_command == ("python setup.py build",)
    assert conf.environments == (
        {"THREADS": "1", "MODE": "fast"},
        {"THREADS": "1"},
        {"THREADS": "2", "MODE": "fast"},
        {"THREADS": "2"},
    )
    unknown, environments = conf.warnings
    assert unknown == f"{path}:18: unknown key 'html_dri'; did you mean 'html_dir'?"
    assert "pythons, matrix.req ask for environments of their own" in environments


def test_a_matrix_of_before_has_packages_alone(tmp_path: Path) -> None:
    path = tmp_path / "asv.conf.json"
    path.write_text('{"matrix": {"numpy": ["1.26"]}}')
    assert read_conf(path).requirements == {"numpy": ("1.26",)}
    assert read_conf(path).environments == ({},)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"repo": 3}', ":1: repo: expected a text"),
        ('{\n"matrix": [],\n"pythons": "3.11"\n}', ":2: matrix: expected a mapping"),
        ("[]", ":1: expected a mapping of keys"),
        ('{"repo": ', ":1: "),
    ],
)
def test_what_is_wrong_is_named_by_its_line(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "asv.conf.json"
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        read_conf(path)
    assert f"{path}{told}" in str(raised.value)


def test_the_file_lies_in_the_directory_or_beside_it_and_names_it(tmp_path: Path) -> None:
    perf, other = tmp_path / "perf", tmp_path / "other"
    perf.mkdir()
    other.mkdir()
    (tmp_path / "asv.conf.json").write_text('{"benchmark_dir": "perf"}')
    assert find_conf(perf) == tmp_path / "asv.conf.json"
    assert find_conf(tmp_path) == tmp_path / "asv.conf.json"
    assert find_conf(other) is None
