import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import SessionError
from paceline.record.layout import (
    ARTIFACTS,
    ATTEMPTS,
    BENCHMARK_RESULTS,
    CONSOLE_LOG,
    DATA_SETUP,
    ENTRY_FILES,
    LOGS,
    OUTBOX,
    RAY_CLUSTER,
    SCRATCH,
    SESSION_FILES,
    check_session_name,
    safe_name,
)

LAYOUT_PAGE = Path(__file__).parents[2] / "docs" / "layout.md"


class TestSafeName:
    @given(
        st.text(st.characters(), max_size=200)
        | st.sampled_from([*SESSION_FILES, DATA_SETUP, "", ".", "..", "/"])
    )
    def test_any_name_becomes_one_harmless_component(self, name: str) -> None:
        safe = safe_name(name)
        assert safe == Path(safe).name
        assert safe not in {"", ".", "..", *SESSION_FILES, DATA_SETUP}
        assert not safe.startswith(".") and "\0" not in safe
        assert len(safe.encode()) <= 120
        assert safe == name or re.search("-[0-9a-f]{8}$", safe)

    @given(st.text(alphabet="aA/._-é ", max_size=8), st.text(alphabet="aA/._-é ", max_size=8))
    def test_different_names_get_different_directories(self, one: str, other: str) -> None:
        assert (safe_name(one) == safe_name(other)) == (one == other)

    @pytest.mark.parametrize(
        "name", ["removal_xenna", "entry[executor=local,size=10]", "a.b-c+d=e,f@g", "größe"]
    )
    def test_ordinary_names_are_kept(self, name: str) -> None:
        assert safe_name(name) == name

    @pytest.mark.parametrize("name", ["../../etc", "report.json", "x" * 121, "e\u0301", "a b"])
    def test_changed_names_are_marked(self, name: str) -> None:
        assert re.search("-[0-9a-f]{8}$", safe_name(name))


class TestCheckSessionName:
    @pytest.mark.parametrize(
        "name", ["", " ", ".", "..", "a/b", "/abs", "../up", ".hidden", "a\0b", "a\nb", "x" * 256]
    )
    def test_a_name_that_leaves_the_results_directory_is_refused(self, name: str) -> None:
        with pytest.raises(SessionError, match="no session name") as caught:
            check_session_name(name)
        assert "\n" not in str(caught.value)

    @given(st.text())
    def test_an_accepted_name_is_one_component(self, name: str) -> None:
        try:
            check_session_name(name)
        except SessionError:
            return
        assert Path(name).name == name and len(Path("results", name).parts) == 2


def test_the_layout_page_names_what_the_code_uses() -> None:
    rows = re.findall(r"^\| `([^`]+)` \|", LAYOUT_PAGE.read_text(), re.MULTILINE)
    session_names = {name.rstrip("/") for name in rows if not name.startswith("<entry>")}
    entry_names = {
        name.removeprefix("<entry>/").split("/")[0] for name in rows if name.startswith("<entry>/")
    }
    assert session_names == {*SESSION_FILES, CONSOLE_LOG, DATA_SETUP, OUTBOX}
    directories = {LOGS, ARTIFACTS, BENCHMARK_RESULTS, SCRATCH, RAY_CLUSTER, ATTEMPTS}
    assert entry_names == {*ENTRY_FILES, *directories}
    assert len(rows) == len(set(rows))
