import json
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.record.redact import (
    MASK,
    Redactor,
    credentials_in,
    is_maskable,
    is_secret_name,
    looks_secret,
    mask_urls,
    secret_values,
    secret_values_in,
)

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
    name = redactor.name("a-hunter22")
    expected = {name: ["x ***", ("***", 5, None)], "set": {"***"}, "path": path}
    assert redactor.data(data) == expected
    assert name.startswith("a-***") and "hunter22" not in name


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


@given(secrets, st.lists(secret_text, min_size=2, max_size=5, unique=True))
def test_names_never_become_one(values: list[str], names: list[str]) -> None:
    redactor = Redactor(values)
    masked = redactor.data(dict.fromkeys(names, 1))
    assert len(masked) == len(names)
    assert list(masked) == [redactor.name(name) for name in names]
    assert not any(value in name for value in values if is_maskable(value) for name in masked)


SECRET_NAMES = """
SLACK_BOT_TOKEN SMTP_PASS MYSQL_PWD GITHUB_PAT SSH_PASSPHRASE NPM_AUTH SENTRY_DSN DB_PASSWORD MY_PASSWD DB_PASSWORD_2
AZURE_STORAGE_CONNECTION_STRING AWS_SECRET_ACCESS_KEY AWS_ACCESS_KEY_ID OPENAI_API_KEY API_KEY_1 apiKey accessToken
SIGNING_KEY AccountKey x-api-key CREDENTIALS SLACK_WEBHOOK_URL SLURM_JWT TOKEN password
"""
OTHER_NAMES = """
MAX_TOKENS NUM_TOKENS PWD OLDPWD PATH PYTHONPATH KEYBOARD MONKEY KEY BYPASS COMPASS PASSED PATTERN AUTHOR XAUTHORITY
TOKENIZERS_PARALLELISM SSH_AUTH_SOCK RAY_AUTH_MODE SLACK_BOT_TOKEN_FILE token_env HOME TEAM REDIS_URL
"""


def test_a_name_is_secret_by_its_whole_parts() -> None:
    assert [name for name in SECRET_NAMES.split() if not is_secret_name(name)] == []
    assert [name for name in OTHER_NAMES.split() if is_secret_name(name)] == []


@given(st.text(max_size=12), st.sampled_from(["_", "-", ".", "1"]))
def test_a_part_is_found_in_wild_names(before: str, border: str) -> None:
    assert is_secret_name(f"{before}{border}TOKEN")
    assert not is_secret_name(f"{before}{border}TOKENS") or is_secret_name(before)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *(("hunter2-hunter2", True), ("abcdefghijkl", True), ("deadbeef01", True), ("p4ssw0rd", True)),
        *(
            ("4096", False),
            ("12345678", False),
            ("-1.5e-10", False),
            ("1,234,567.89", False),
            ("0123456789", False),
        ),
        *(
            ("disabled", False),
            ("production", False),
            ("hunter2", False),
            ("        x", False),
            ("*" * 9, False),
        ),
    ],
)
def test_numbers_words_and_short_values_are_no_secrets_by_themselves(value: str, expected: bool) -> None:
    assert looks_secret(value) is expected
    assert secret_values({"API_TOKEN": value}) == ((value,) if expected else ())


def test_secrets_are_found_by_their_variables_names() -> None:
    environ = {
        "SLACK_BOT_TOKEN": "xoxb-1234",
        "DB_PASSWORD": "pw with space\n",
        "MY_PASSWD": "abc",
        "API_KEY": "True",
        "CREDENTIALS_FILE": "service.json",
        "MAX_TOKENS": "4096",
        "SLACK_WEBHOOK_URL": "https://hooks.example/services/T/B",
        "SENTRY_DSN": "https://abcdef0123456789@o1.ingest.example/17",
        "REDIS_URL": "redis://:r3d1s-pass@host/0",
        "PLAIN": "plain-value",
        "NAMED": "1234",
        "SORT_KEY": "by-name-and-size",
    }
    assert secret_values(environ, ["NAMED", "NOT_SET", "!SORT_KEY"]) == (
        "xoxb-1234",
        "pw with space\n",
        "pw with space",
        "services/T/B",
        "abcdef0123456789",
        "r3d1s-pass",
        "1234",
    )


@pytest.mark.parametrize(
    ("url", "found", "shown"),
    [
        ("redis://:r3d1s-pass@host/0", {"r3d1s-pass"}, "redis://:***@host/0"),
        ("https://me:p%40ss-w0rd@host", {"p@ss-w0rd", "p%40ss-w0rd"}, "https://me:***@host"),
        ("https://me:p@ss-w0rd@host", {"p@ss-w0rd"}, "https://me:***@host"),
        ("https://ghp_0123456789@github.com/x", {"ghp_0123456789"}, "https://***@github.com/x"),
        ("https://gh-0123456789:x-oauth-basic@h", {"gh-0123456789"}, "https://***:***@h"),
        (
            "postgresql://h/db?user=me&password=s3cret-1",
            {"s3cret-1"},
            "postgresql://h/db?user=me&password=***",
        ),
        (
            "https://h/blob?sv=1&sig=abc%2Fdef%3D1",
            {"abc/def=1", "abc%2Fdef%3D1"},
            "https://h/blob?sv=1&sig=***",
        ),
        ("postgresql://me@host/db", set(), "postgresql://me@host/db"),
        ("mysql://root:pw@host/db", set(), "mysql://root:***@host/db"),
        ("https://host/a@b:c?page=2", set(), "https://host/a@b:c?page=2"),
        ("mail me@host, token=5", set(), "mail me@host, token=5"),
    ],
)
def test_credentials_of_urls(url: str, found: set[str], shown: str) -> None:
    assert set(credentials_in(url)) == set(secret_values({"ANY": url})) == found
    assert mask_urls(url) == shown
    assert mask_urls({"a": [url, 5]}) == {"a": [shown, 5]}


unreserved = st.text(alphabet="abcXYZ019-._~", min_size=8, max_size=20).filter(looks_secret)


@given(unreserved, st.text(alphabet="uU0-", max_size=5), st.text(alphabet="/?&=#ab%", max_size=12))
def test_no_url_shows_its_password(password: str, user: str, rest: str) -> None:
    url = f"https://{user}:{password}@host/{rest}"
    assert password in set(credentials_in(url))
    assert password not in mask_urls(url) or password in rest
    assert password not in Redactor(credentials_in(url)).text(url)


@given(st.text())
def test_text_without_a_url_is_unchanged(text: str) -> None:
    assert "://" in text or mask_urls(text) == text


def test_secrets_written_out_in_the_options_of_a_sink() -> None:
    options = {
        "url": "https://me:s3cret-pw@hooks.example/services/T0/B0-0123456?x=1",
        "headers": {
            "Authorization": "Bearer abc-123-xyz",
            "X-Team": "team-42-blue",
            "Accept": "application/json",
        },
        "secret_env": "HOOK_SECRET",
        "channel": "nightly-benchmarks",
        "nested": [{"api_key": "k3y-of-service"}],
    }
    found = secret_values_in(options, "webhook")
    assert found == (
        "services/T0/B0-0123456?x=1",
        "B0-0123456?x=1",
        "s3cret-pw",
        "Bearer abc-123-xyz",
        "abc-123-xyz",
        "team-42-blue",
        "k3y-of-service",
    )
    assert secret_values_in({"tracking_uri": "https://mlflow.example/team-42"}, "mlflow") == ()
    assert Redactor(found).text(options["url"]) == "https://me:***@hooks.example/***"


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
