"""One database for many jobs in an object store: two that write at once lose nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from object_store import s3  # noqa: F401 - a fixture
from paceline.errors import HistoryError, PacelineError
from paceline.history import Added, open_store
from paceline.history.remote import fetch, pull, push, put
from stored_records import ENVIRONMENT, record, series_of, session


def job(path: Path, *numbers: int) -> Path:
    """The database of a CI job that ran these nights."""
    with open_store(path) as store:
        for number in numbers:
            store.add(session(number), ENVIRONMENT, [record(value=float(number), number=number)])
    return path


def values(path: Path) -> list[tuple[float, ...]]:
    with open_store(path) as store:
        return [tuple(series.values) for series in series_of(store, "sort", "wall_s")]


@pytest.fixture(params=["s3", "file"])
def remote(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return str(tmp_path / "shared" / "benchmark.db")
    bucket: str = request.getfixturevalue("s3")
    return f"{bucket}/global/benchmark.db"


def test_jobs_push_and_everyone_pulls(remote: str, tmp_path: Path) -> None:
    one, two = job(tmp_path / "one.db", 1, 2), job(tmp_path / "two.db", 2, 3)
    Path(remote).parent.mkdir(parents=True, exist_ok=True) if "://" not in remote else None
    assert push(one, remote).added == Added(records=2, samples=2)
    assert push(two, remote).added == Added(records=1, samples=1, known=1)
    assert pull(remote, tmp_path / "new" / "benchmark.db").added == Added(records=3, samples=3)
    assert values(tmp_path / "new" / "benchmark.db") == [(1.0, 2.0, 3.0)]
    assert pull(remote, one).added == Added(records=1, samples=1, known=2)
    assert values(one) == [(1.0, 2.0, 3.0)]


def test_pushing_nothing_new_writes_nothing(remote: str, tmp_path: Path) -> None:
    Path(remote).parent.mkdir(parents=True, exist_ok=True) if "://" not in remote else None
    one = job(tmp_path / "one.db", 1)
    push(one, remote)
    version = fetch(remote, tmp_path / "a.db")
    assert push(one, remote).added == Added(known=1)
    assert fetch(remote, tmp_path / "b.db") == version


def test_a_write_in_between_is_joined(s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    remote = f"{s3}/benchmark.db"
    mine, theirs = job(tmp_path / "mine.db", 1), job(tmp_path / "theirs.db", 2)
    real_put, disturbed = put, []

    def put_late(path: Path, url: str, *, if_version: str | None) -> str:
        if not disturbed:
            disturbed.append(True)
            real_put(theirs, url, if_version=if_version)  # another job is faster
        return real_put(path, url, if_version=if_version)

    monkeypatch.setattr("paceline.history.remote.put", put_late)
    found = push(mine, remote)
    assert (found.conflicts, found.added.records) == (1, 1)
    pull(remote, tmp_path / "all.db")
    assert values(tmp_path / "all.db") == [(1.0, 2.0)]


def test_jobs_that_push_at_once_lose_nothing(s3: str, tmp_path: Path) -> None:  # noqa: F811
    remote = f"{s3}/benchmark.db"
    program = "import sys; from paceline.history.remote import push; push(*sys.argv[1:])"
    jobs = [job(tmp_path / f"{number}.db", number) for number in range(1, 5)]
    started = [
        subprocess.Popen([sys.executable, "-c", program, path, remote], stderr=subprocess.PIPE, text=True)
        for path in jobs
    ]
    assert [process.communicate()[1] for process in started] == [""] * 4
    pull(remote, tmp_path / "all.db")
    assert values(tmp_path / "all.db") == [(1.0, 2.0, 3.0, 4.0)]


def test_what_is_not_there(remote: str, tmp_path: Path) -> None:
    with pytest.raises(
        HistoryError, match=r"no history at .*benchmark\.db: 'paceline history push' makes one"
    ):
        pull(remote, tmp_path / "new.db")
    assert not (tmp_path / "new.db").exists()
    with pytest.raises(HistoryError, match=r"no history at .*missing\.db"):
        push(tmp_path / "missing.db", remote)


def test_what_is_there_is_no_history(s3: str, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "text.db").write_text("not a database\n" * 100)
    put(tmp_path / "text.db", f"{s3}/benchmark.db", if_version=None)
    with pytest.raises(PacelineError, match="file is not a database"):
        push(job(tmp_path / "one.db", 1), f"{s3}/benchmark.db")
