"""A sink's settings on disk: variables by their names, and back."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.model import SinkSpec
from paceline.record.redact import Redactor
from paceline.sinks.sending import IncompleteSpec, keep_spec, read_spec
from sink_bench import spec

ENVIRON = {"MY_TOKEN": "tok-123456", "PLACE": "host.example:99", "HOME": "/home/me"}
TEXTS = st.lists(
    st.sampled_from(["tok-123456", "host.example:99", "$", "${", "}", "$$", "MY_TOKEN", "é", "a b", "{x}"])
).map("".join)


def keep(directory: Path, sink: SinkSpec, secrets: tuple[str, ...] = ()) -> str:
    values = ("tok-123456", "host.example:99", *secrets)
    keep_spec(directory, sink, ENVIRON, ["PLACE"], Redactor(values))
    return (directory / "spec.json").read_text()


@given(
    options=st.dictionaries(st.sampled_from(["a", "b"]), TEXTS | st.lists(TEXTS) | st.integers() | st.none())
)
def test_settings_come_back_as_they_were_and_hold_no_value(
    tmp_path_factory: pytest.TempPathFactory, options: dict[str, object]
) -> None:
    directory = tmp_path_factory.mktemp("spec")
    sink = SinkSpec(type="t", name="n", options=options, only=("failures",), wait_s=2.5)
    text = keep(directory, sink)
    assert "tok-123456" not in text and "host.example:99" not in text
    assert read_spec(directory, ENVIRON) == sink


def test_todays_value_of_a_variable_counts(tmp_path: Path) -> None:
    keep(tmp_path, spec("t", token="Bearer tok-123456"))
    assert read_spec(tmp_path, {"MY_TOKEN": "new"}).options == {"token": "Bearer new"}
    with pytest.raises(IncompleteSpec, match="sink t: environment variable MY_TOKEN is not set"):
        read_spec(tmp_path, {})


def test_a_secret_written_out_is_lost_and_that_is_said(tmp_path: Path) -> None:
    text = keep(tmp_path, spec("t", token="plain-secret"), secrets=("plain-secret",))
    assert "plain-secret" not in text and json.loads(text)["lost"] is True
    with pytest.raises(IncompleteSpec, match=re.escape("give the configuration again with --config")):
        read_spec(tmp_path, ENVIRON)
