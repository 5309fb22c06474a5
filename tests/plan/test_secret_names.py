"""A name that holds a secret is told of, without the secret."""

import pytest

from plan.suites import ONE, Planner, entry

SECRET = "hunter2-hunter2"
KNOWN = {"API_TOKEN": SECRET, "SIZE": "10"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("entries: [{name: 'a-${API_TOKEN}', command: [x]}]\n", ":1: entries[0].name: the name contains"),
        (
            entry("matrix: {size: ['${SIZE}', 'x${API_TOKEN}', '${API_TOKEN}']}"),
            ":5: entries[0].matrix: a value",
        ),
        (
            "data_setups: [{name: '${API_TOKEN}', command: [x]}]\n" + ONE,
            ":1: data_setups[0].name: the name contains",
        ),
    ],
)
def test_a_name_with_a_secret(plan: Planner, text: str, words: str) -> None:
    (warning,) = (note for note in plan(text, environ=KNOWN).warnings if "secret" in note)
    assert words in warning
    assert "the secret in the environment variable API_TOKEN" in warning
    assert SECRET not in warning


def test_a_session_with_a_secret(plan: Planner) -> None:
    (warning,) = plan(ONE, environ=KNOWN, session=f"night-{SECRET}").warnings
    assert warning.startswith("the name of the session contains the secret")
    assert SECRET not in warning


def test_a_secret_elsewhere_is_masked_and_no_problem(plan: Planner) -> None:
    assert plan(entry("args: --token ${API_TOKEN}"), environ=KNOWN).cases
