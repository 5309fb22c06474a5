"""The history's database in tests: an SQLAlchemy engine, a session with its transaction, and the row of a test."""

import os
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import pytest

from paceline.pytest_plugin.measuring import STAGES, TestRun, current

if TYPE_CHECKING:
    from sqlalchemy import Engine
    from sqlalchemy.orm import Session

__all__ = ["benchmark_db_engine", "benchmark_db_session", "database_table_schema"]

VARIABLE = "DB_NAME"
_SUFFIX = ".db"
_BUSY_TIMEOUT_S = 60
_VIEW = "test_run"


@pytest.fixture(scope="session")
def benchmark_db_engine(pytestconfig: pytest.Config) -> "Iterator[Engine | None]":
    """The SQLAlchemy engine of the history, which is made if there is none; None without `--benchmark`.

    What this run measures is in its view `test_run` when the run has ended.
    """
    stage = STAGES[-1]
    if stage is None or not stage.session_id:
        yield None
        return
    from paceline.errors import needs_extra

    with needs_extra("sqlalchemy", "the fixture benchmark_db_engine"):
        from sqlalchemy import create_engine

    from paceline.history import open_store
    from paceline.history.urls import parse_target

    url = database_of(pytestconfig)
    open_store(url).close()
    target = parse_target(url)
    if target.path:
        engine = create_engine(target.url, connect_args={"timeout": _BUSY_TIMEOUT_S})
    else:
        engine = create_engine(target.url.replace("postgresql:", "postgresql+psycopg:", 1))
    yield engine
    engine.dispose()


@pytest.fixture
def benchmark_db_session(benchmark_db_engine: "Engine | None") -> "Iterator[Session | None]":
    """An SQLAlchemy session with a transaction that ends with the test; None without `--benchmark`.

    Objects of classes of your own may be added; their tables are made beside those of the history.
    """
    if benchmark_db_engine is None:
        yield None
        return
    from sqlalchemy import event
    from sqlalchemy.orm import Session

    with Session(benchmark_db_engine) as session, session.begin():
        event.listen(session, "before_flush", _make_tables)
        yield session


def _make_tables(session: "Session", *_: object) -> None:
    for table in {one.__table__ for one in session.new}:
        if table.name == _VIEW:
            raise TypeError(
                f"{_VIEW} is a view here, made of all records: set attributes on test_run_benchmark instead"
            )
        table.create(session.connection(), checkfirst=True)


@pytest.fixture
def database_table_schema() -> TestRun:
    """The same object as `test_run_benchmark`: the row that the test will have in `test_run`."""
    return TestRun(current())


def database_of(config: pytest.Config) -> str:
    """The database to record into: `--benchmark-db`, else PACELINE_DB, else a file that DB_NAME names, else the root's.

    Many programs have a DB_NAME. So it has to end with `.db`, and if the file is there, it has to be a history.
    """
    from paceline.errors import HistoryError
    from paceline.history.importers import is_database
    from paceline.history.urls import DEFAULT, RESULTS, find_url

    given = os.environ.get(VARIABLE, "")
    usual, places = config.rootpath / DEFAULT, (config.invocation_params.dir, config.rootpath / RESULTS)
    others = (
        place / DEFAULT for place in places
    )  # where it was made before, and where `run` and `import` make it
    usual = usual if usual.is_file() else next((one for one in others if one.is_file()), usual)
    url = find_url(config.option.paceline_db, given if given.endswith(_SUFFIX) else str(usual))
    if "://" in url or url.startswith("sqlite:"):
        return url
    # A file is meant from where pytest was started, wherever a test goes.
    path = config.invocation_params.dir / url
    if url == given and path.is_file() and path.stat().st_size and not is_database(path):
        raise HistoryError(
            f"{VARIABLE} names {path}, which is another program's database: set PACELINE_DB or --benchmark-db"
        )
    return str(path)


def arm() -> str:
    """The arm of an A/B test that AB_VERSION names; what it is called otherwise is none."""
    given = os.environ.get("AB_VERSION", "")
    return "" if given in ("upstream", "latest") else given


def labels_of(item: pytest.Item, session_id: str) -> dict[str, Any]:
    """What the row of a test says of it before it ran."""
    from paceline.history.session_files import ci_run_url

    return {
        "session_id": session_id,
        "name": item.name,
        "originalname": getattr(item, "originalname", None) or item.name,
        "path": item.nodeid.partition("::")[0],
        "dask_version": _version("dask"),
        "distributed_version": _version("distributed"),
        "coiled_runtime_version": arm() or "upstream",
        "python_version": ".".join(map(str, sys.version_info)),
        "platform": sys.platform,
        "ci_run_url": ci_run_url(os.environ) or None,
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
