"""Which keys go together."""

import pytest

from config.config_files import ENTRY, ConfigFiles


def of_entry(files: ConfigFiles, text: str) -> list[str]:
    return files.problems(f"entries:\n  - {{name: e, script: e.py, {text}}}\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("command: x", "entries[0].command: give 'script' or 'command', not both"),
        ("script: ''", None),
        ("interpreter: []", "entries[0].interpreter: must not be empty"),
        (
            "requirements: [{metric: m, exact_value: 1, max_value: 2}]",
            "entries[0].requirements[0].exact_value: excludes 'min_value' and 'max_value'; "
            "set it to null where it is not wanted any more",
        ),
        (
            "requirements: [{metric: m, min_value: 3, max_value: 2}]",
            "entries[0].requirements[0].max_value: max_value 2 is below min_value 3",
        ),
        (
            "requirements: [{metric: m}]",
            "entries[0].requirements[0]: give 'exact_value', or 'min_value' and/or 'max_value', or 'max_regression'",
        ),
        (
            "requirements: [{metric: m, exact_value: true, tolerance: 0.1}]",
            "entries[0].requirements[0].tolerance: true has no tolerance; only a number has",
        ),
        ("matrix: {}", "entries[0].matrix: a matrix needs an axis: a key with a list of values"),
        ("matrix: {size: []}", "entries[0].matrix.size: an axis needs at least one value"),
        ("matrix: {size: [1, '1']}", "entries[0].matrix.size[1]: the value '1' is there twice"),
        ("matrix: {size: [.nan]}", "entries[0].matrix.size[0]: a value of an axis must be finite"),
        ("matrix: {'a b': [1]}", "entries[0].matrix.a b: an axis is named with letters, digits, '_' and '-'"),
        (
            "matrix: {size: [1], exclude: [{sise: 1}]}",
            "entries[0].matrix.exclude[0].sise: there is no axis 'sise'; did you mean 'size'?",
        ),
        (
            "matrix: {size: [1], include: [{mode: fast}], exclude: [{mode: fast}]}",
            "entries[0].matrix.exclude[0].mode: there is no axis 'mode'; the axes are size",
        ),
        (
            "matrix: {size: [1], exclude: [{size: 1}]}",
            "entries[0].matrix: has no cells left; give an axis a value, or exclude less",
        ),
        (
            "matrix: {size: [1], include: [{}]}",
            "entries[0].matrix.include[0]: an item of 'include' needs at least one axis",
        ),
    ],
)
def test_keys_that_do_not_go_together(files: ConfigFiles, text: str, expected: str | None) -> None:
    if expected is None:
        expected = "duplicate key 'script'; it is already on line 2"
    assert of_entry(files, text) == [f"a.yaml:2: {expected}"]


def test_a_program_is_needed(files: ConfigFiles) -> None:
    text = "entries: [{name: a}, {name: b, script: ' '}]\ndata_setups:\n  - {name: c}\n"
    assert files.problems(text) == [
        "a.yaml:1: entries[0]: give a 'script' or a 'command' to run, or 'pytest' or 'asv'",
        "a.yaml:1: entries[1].script: must not be empty",
        "a.yaml:3: data_setups[0]: give a 'script' or a 'command' to run",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("entries: [{name: a, comand: [x]}]", "entries[0]: unknown key 'comand'; did you mean 'command'?"),
        ("entris: [{name: a, script: a}]", "unknown key 'entris'; did you mean 'entries'?"),
        ("entries: [{nam: a, script: a}]", "entries[0]: unknown key 'nam'; did you mean 'name'?"),
        (
            "entries: [{name: a, script: a, requirements: [{metric: m, min_valu: 1}]}]",
            "entries[0].requirements[0]: unknown key 'min_valu'; did you mean 'min_value'?",
        ),
    ],
)
def test_a_key_that_is_misspelt_is_not_missing_as_well(files: ConfigFiles, text: str, told: str) -> None:
    assert files.problems(text + "\n") == [f"a.yaml:1: {told}"]


def test_a_matrix_of_combinations_alone(files: ConfigFiles) -> None:
    loaded = files.load("entries: [{name: e, script: e, matrix: {include: [{a: 1}, {a: 2}]}}]\n")
    assert loaded.config.entries[0].matrix is not None


def test_timeouts_have_a_limit(files: ConfigFiles) -> None:
    text = """\
    max_timeout_s: 100
    entries:
      - {name: a, script: a}
      - {name: b, script: b, timeout_s: 101}
      - {name: c, script: c, timeout_s: 100}
    data_setups:
      - {name: d, script: d, timeout_s: 1000}
    """
    assert files.problems(text) == [
        "a.yaml:3: entries[0].timeout_s: default_timeout_s 7,200 is above max_timeout_s 100",
        "a.yaml:4: entries[1].timeout_s: timeout_s 101 is above max_timeout_s 100",
    ]


def test_one_viewer(files: ConfigFiles) -> None:
    assert files.problems(ENTRY + "viewer_url: x\nviewer_url_template: y\n") == [
        "a.yaml:2: viewer_url: give 'viewer_url' or 'viewer_url_template', not both"
    ]


def test_data_set_ups_have_fewer_keys(files: ConfigFiles) -> None:
    text = ENTRY + "data_setups: [{name: d, script: d, ray: {}}]\n"
    assert files.problems(text) == ["a.yaml:2: data_setups[0]: unknown key 'ray'"]


def test_rules_and_types_are_told_together(files: ConfigFiles) -> None:
    problems = files.problems(
        "entries:\n  - name: a\n    bad: 1\n    timeout_s: x\nviewer_url: 1\nviewer_url_template: 2\n"
    )
    assert [problem.partition(": ")[0] for problem in problems] == [
        "a.yaml:2", "a.yaml:3", "a.yaml:4", "a.yaml:5", "a.yaml:5", "a.yaml:6",
    ]  # fmt: skip
