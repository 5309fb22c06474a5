"""Sessions of our own, alone and among files of other tools."""

import json
import shutil
from pathlib import Path

import pytest

from history.importers.golden import FILES, read_all, read_one
from paceline.errors import HistoryError
from paceline.history import Added, open_store
from paceline.history.importers import FORMATS, read, recognise
from workplace import Workplace

SUITE = "results_dir: results\nentries:\n- {name: quick, command: ['true']}\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = Workplace(tmp_path_factory.mktemp("suite"))
    place.write("suite.yaml", SUITE)
    done = place.run("run", "suite.yaml", "--session-name", "s1")
    assert (place.path / "results/s1/quick/record.json").exists(), done.stderr
    return place.path / "results/s1"


@pytest.fixture
def session(made: Path, tmp_path: Path) -> Path:
    """A session in a results directory of its own."""
    return Path(shutil.copytree(made, tmp_path / "results/s1"))


def test_a_session(session: Path) -> None:
    assert recognise(session) == recognise(session.parent) == "session"
    batch, records = read_one(session)
    assert (batch.session.name, batch.session.kind, batch.session.tool) == ("s1", "session", "paceline")
    assert list(records) == ["quick"]
    assert batch.environment["class_id"]


def test_a_directory_of_everything(session: Path, tmp_path: Path) -> None:
    root = session.parent
    shutil.copytree(FILES, root / "tools")
    (root / "package.json").write_text('{"name": "no result"}')
    (root / "torn.json").write_text('{"machine_info": ')
    added: list[Added] = []
    problems: list[str] = []
    with open_store(tmp_path / "history.db") as store:
        for _ in range(2):
            problems.clear()
            found = read(root, on_problem=lambda problem: problems.append(str(problem)))
            added.append(
                sum((store.add(batch.session, batch.environment, batch.records) for batch in found), Added())
            )
        assert added[0].records > 50
        assert added[1] == Added(known=added[0].records + added[0].known)
        tools = {info.tool for info in store.sessions()}
    assert [problem.partition(": ")[0] for problem in problems] == [str(root / "torn.json")]
    assert tools == {*FORMATS, "paceline", "pytest"} - {"session", "records", "coiled"}


def test_a_record_of_a_later_version_is_said(session: Path) -> None:
    path = session / "quick/record.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "schema": 99}))
    problems: list[str] = []
    (batch,) = read(session, on_problem=lambda problem: problems.append(str(problem)))
    assert list(batch.records) == []
    assert len(problems) == 1 and "update paceline" in problems[0]


def test_only_one_format_of_a_directory(tmp_path: Path) -> None:
    shutil.copytree(FILES, tmp_path / "tools")
    assert {batch.session.tool for batch in read_all(tmp_path, "hyperfine")} == {"hyperfine"}
    with pytest.raises(HistoryError, match="nothing in it is of the format coiled; known formats are asv, "):
        list(read(tmp_path, "coiled"))


def test_a_directory_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "torn.json").write_text("{")
    (tmp_path / "other.json").write_text("{}")
    assert recognise(tmp_path) is None
    with pytest.raises(
        HistoryError, match="nothing in it can be imported, and 1 of its files are damaged; known"
    ):
        list(read(tmp_path))


def test_a_path_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="none: does not exist; check the path"):
        list(read(tmp_path / "none"))
    assert recognise(tmp_path / "none") is None


def test_a_format_that_nobody_knows(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="unknown format 'jmh'; choose auto, asv, coiled, "):
        list(read(tmp_path, "jmh"))


def test_a_file_is_not_of_the_named_format() -> None:
    with pytest.raises(HistoryError, match=r"scan\.json: results: expected an object, found a list; "):
        read_all(FILES / "hyperfine/scan.json", "asv")


def test_environments_with_packages_are_passed_over(tmp_path: Path) -> None:
    for place in (".venv/lib/x", "node_modules/x", "kept"):
        target = tmp_path / place / "scan.json"
        target.parent.mkdir(parents=True)
        shutil.copy(FILES / "hyperfine/scan.json", target)
    (tmp_path / ".venv/pyvenv.cfg").touch()
    (tmp_path / "loop").symlink_to(tmp_path)
    assert len(read_all(tmp_path)) == 1


def test_a_revision_for_tools_that_name_none() -> None:
    told, known = (
        next(read(FILES / name, revision="feed123"))
        for name in ("hyperfine/scan.json", "pytest-benchmark/run.json")
    )
    assert told.session.revision == "feed123"
    assert {record.revision for record in told.records} == {"feed123"}
    assert known.session.revision.startswith("482edbe")
    assert {record.revision for record in known.records} == {known.session.revision}
