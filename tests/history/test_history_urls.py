"""Which database is meant, and what is said of one that cannot be."""

import subprocess
import sys
from pathlib import Path

import pytest

from paceline.errors import HistoryError
from paceline.history import find_url, open_store
from paceline.history.urls import HERE, parse_target, why_here


def test_the_first_that_is_told_counts() -> None:
    environ = {"PACELINE_DB": "env.db"}
    assert find_url("given.db", "config.db", environ) == "given.db"
    assert find_url(None, "config.db", environ) == "env.db"
    assert find_url(None, "config.db", {}) == "config.db"


def test_beside_the_results_unless_there_is_one_here_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_url(None, None, {}) == "results/benchmark.db"
    assert find_url(None, None, {}, results=tmp_path) == f"{tmp_path}/benchmark.db"
    assert why_here(find_url(None, None, {})) == ""
    Path("benchmark.db").touch()
    found = find_url(None, None, {})
    assert (found, why_here(found).startswith("the history is ./benchmark.db, not results/")) == (HERE, True)
    assert why_here("benchmark.db") == "", "somebody asked for it"
    assert why_here(find_url(None, None, {}, results=tmp_path), tmp_path) == "", "it is where it belongs"


@pytest.mark.parametrize(
    "text",
    ["{dir}/a b.db", "sqlite:///{dir}/a b.db", "sqlite+pysqlite:///{dir}/a b.db", "file://{dir}/a b.db"],
)
def test_forms_of_a_file(text: str, tmp_path: Path) -> None:
    url = text.format(dir=tmp_path if "sqlite" not in text else str(tmp_path))
    assert parse_target(url).path == tmp_path / "a b.db"


def test_a_relative_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for text in ("benchmark.db", "sqlite:///benchmark.db", Path("benchmark.db")):
        assert parse_target(text).path == tmp_path / "benchmark.db"


@pytest.mark.parametrize("name", ["a%20b#c?d.db", "ünïcode.db", "a'b\".db"])
def test_odd_names_of_files(name: str, tmp_path: Path) -> None:
    open_store(tmp_path / name).close()
    with open_store(tmp_path / name, read_only=True) as store:
        assert store.query("SELECT 1")[1] == [(1,)]
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("text", ["mysql://root:hunter2@host/db", "s3://bucket/benchmark.db", ":memory:", ""])
def test_what_is_no_database(text: str) -> None:
    with pytest.raises(HistoryError) as caught:
        parse_target(text)
    assert "hunter2" not in str(caught.value)


def test_passwords_are_not_shown() -> None:
    target = parse_target("postgres://me:hunter2@host:5432/db?sslmode=require")
    assert target.url == "postgresql://me:hunter2@host:5432/db?sslmode=require"
    assert str(target) == "postgresql://me:***@host:5432/db?sslmode=require"
    assert str(parse_target("postgresql://me@host/db")) == "postgresql://me@host/db"
    assert (
        str(parse_target("postgresql://host/db?password=hunter2&x=1"))
        == "postgresql://host/db?password=***&x=1"
    )


def test_a_server_that_does_not_answer(tmp_path: Path) -> None:
    url = f"postgresql://me:hunter2@/db?host={tmp_path}"
    with pytest.raises(
        HistoryError, match=r"postgresql://me:\*\*\*@/db.*look whether the server runs"
    ) as caught:
        open_store(url)
    assert "hunter2" not in str(caught.value)


def test_a_missing_driver_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from paceline.errors import MissingExtra\n"
        "from paceline.history import open_store\n"
        "try: open_store('postgresql://me@host/db')\n"
        "except MissingExtra as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "the history at postgresql://me@host/db needs the postgres extra: pip install 'paceline[postgres]'\n"
    )


def test_a_directory_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "benchmark.db").mkdir()
    with pytest.raises(HistoryError, match="unable to open database file"):
        open_store(tmp_path / "benchmark.db")
    (tmp_path / "file").touch()
    with pytest.raises(HistoryError):
        open_store(tmp_path / "file" / "benchmark.db")
