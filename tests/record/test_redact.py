import json
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.record.redact import MASK, Redactor, is_maskable, secret_values

# Few letters, so that secrets overlap, contain and continue each other; no `*`: the mask is made of it.
secret_text = st.text(alphabet='ab/"é\n% ', min_size=4, max_size=9)
secrets = st.lists(secret_text, min_size=1, max_size=4)
pieces = st.text(alphabet='ab/"é\n% x', max_size=20)


@st.composite
def secret_streams(draw: st.DrawFn) -> tuple[list[str], bytes, list[int]]:
    values = draw(secrets)
    parts = draw(st.lists(st.one_of(pieces, st.sampled_from(values)), max_size=8))
    data = "".join(parts).encode()
    cuts = draw(st.lists(st.integers(0, len(data)), max_size=6))
    return values, data, sorted(cuts)


def feed_cut(redactor: Redactor, data: bytes, cuts: list[int]) -> bytes:
    stream = redactor.stream()
    borders = [0, *cuts, len(data)]
    parts = [stream.feed(data[a:b]) for a, b in pairwise(borders)]
    return b"".join(parts) + stream.flush()


@given(secret_streams())
def test_a_stream_never_shows_a_secret_however_it_is_cut(case: tuple[list[str], bytes, list[int]]) -> None:
    values, data, cuts = case
    redactor = Redactor(values)
    output = feed_cut(redactor, data, cuts)
    assert not any(value.encode() in output for value in values if is_maskable(value))
    assert output == feed_cut(redactor, data, [])
    assert output.decode() == redactor.text(data.decode())


@given(secrets, st.text(alphabet="xyz \n", max_size=40), st.lists(st.integers(0, 40), max_size=5))
def test_text_without_a_secret_is_unchanged(values: list[str], text: str, cuts: list[int]) -> None:
    redactor = Redactor(value for value in values if "a" in value or "b" in value)
    assert redactor.text(text) == text
    assert feed_cut(redactor, text.encode(), sorted(cuts)) == text.encode()


@given(st.text(min_size=4).filter(lambda value: "*" not in value and is_maskable(value)))
def test_escaped_forms_are_masked(value: str) -> None:
    redactor = Redactor([value])
    for form in (
        quote(value),
        quote(value, safe=""),
        quote_plus(value),
        json.dumps(value)[1:-1],
        repr(value)[1:-1],
    ):
        assert redactor.text(f"<{form}>") == f"<{MASK}>"


@given(secret_streams())
def test_no_more_is_held_back_than_could_begin_a_secret(case: tuple[list[str], bytes, list[int]]) -> None:
    values, data, _ = case
    stream = Redactor(values).stream()
    output = stream.feed(data + b"x\x00")
    assert output.endswith(b"x\x00")
    assert stream.flush() == b""


def test_only_the_possible_beginning_of_a_secret_waits() -> None:
    stream = Redactor(["s3cr3t-value"]).stream()
    assert stream.feed(b"progress 10% s3cr") == b"progress 10% "
    assert stream.feed(b"3t-value done s") == b"*** done "
    assert stream.feed(b"low") == b"slow"
    assert stream.flush() == b""


def test_the_longest_secret_wins_at_a_border() -> None:
    stream = Redactor(["abcd", "abcdefgh"]).stream()
    assert stream.feed(b"abcdef") == b""
    assert stream.feed(b"gh!") == b"***!"
    assert stream.feed(b"abcdefzz") == b"***efzz"


def test_data_is_masked_in_keys_lists_tuples_and_sets() -> None:
    redactor = Redactor(["hunter22"])
    path = Path("hunter22")
    data = {"a-hunter22": ["x hunter22", ("hunter22", 5, None)], "set": {"hunter22"}, "path": path}
    expected = {"a-***": ["x ***", ("***", 5, None)], "set": {"***"}, "path": path}
    assert redactor.data(data) == expected


def test_values_are_masked_under_keys_that_stay() -> None:
    redactor = Redactor(["name", "hunter22"])
    data = {"name": ["x hunter22", {"hunter22": ("hunter22", 5)}], "other": "the name"}
    assert redactor.values(data) == {"name": ["x ***", {"hunter22": ("***", 5)}], "other": "the ***"}


@given(secrets, st.lists(st.one_of(pieces, secret_text), max_size=5))
def test_nested_texts_are_masked_as_single_ones(values: list[str], texts: list[str]) -> None:
    redactor = Redactor(values)
    assert redactor.data({"x": texts}) == {"x": [redactor.text(text) for text in texts]}


def test_odd_texts_beside_a_secret_do_not_hide_it() -> None:
    value = b"p\xe4ss-\xf6rd".decode("utf-8", "surrogateescape")
    for secret in (value, "plain-secret", "päss-wörd"):
        assert Redactor([secret]).data(["\ud800", f"x {secret}"]) == ["\ud800", "x ***"]


def test_secrets_are_found_by_their_variables_names() -> None:
    environ = {
        "SLACK_BOT_TOKEN": "xoxb-1234",
        "aws_secret_access": "lowercase-name",
        "DB_PASSWORD": "pw with space\n",
        "MY_PASSWD": "abc",
        "API_KEY": "True",
        "CREDENTIALS_FILE": "service.json",
        "SLACK_WEBHOOK_URL": "https://hooks.example/T/B",
        "PLAIN": "plain-value",
        "NAMED": "named-value",
    }
    assert secret_values(environ, ["NAMED", "NOT_SET"]) == (
        "xoxb-1234",
        "lowercase-name",
        "pw with space\n",
        "pw with space",
        "service.json",
        "https://hooks.example/T/B",
        "named-value",
    )


@pytest.mark.parametrize("value", ["abc", "true", "False", "null", "none", "yes", "no", "", "*****", "     "])
def test_common_words_and_short_values_are_not_masked(value: str) -> None:
    redactor = Redactor([value])
    assert not redactor
    assert redactor.text(f"a {value} b") == f"a {value} b"


def test_undecodable_environment_values_are_masked_in_bytes_and_text() -> None:
    value = b"p\xe4ss-w\xf6rd".decode("utf-8", "surrogateescape")
    redactor = Redactor([value])
    stream = redactor.stream()
    assert stream.feed(b"x p\xe4ss-w\xf6rd y") + stream.flush() == b"x *** y"
    assert redactor.text(f"x {value} y") == "x *** y"


def test_a_redactor_without_values_changes_nothing() -> None:
    redactor = Redactor()
    stream = redactor.stream()
    assert stream.feed(b"\xff\x00abc") == b"\xff\x00abc"
    assert redactor.data({"a": 1}) == {"a": 1}
