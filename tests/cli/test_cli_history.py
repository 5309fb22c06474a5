"""`paceline history`, by its real command line."""

import json
from pathlib import Path

import pytest

from paceline.cli.history import COMMANDS
from paceline.cli.history.log import sparkline
from paceline.history import open_store
from stored_records import ENVIRONMENT, measured, record, session
from workplace import Workplace


@pytest.fixture
def nights(place: Workplace) -> Workplace:
    """A database of five nights."""
    with open_store(place.path / "results/benchmark.db") as store:
        for number in range(1, 6):
            metrics = {"wall_s": measured(10.0 + number, 10.0, 12.0), "rows": measured(5 * number, unit=None)}
            told = [record(metrics=metrics, number=number), record("join[n=1]", 1.0, number=number)]
            store.add(session(number), ENVIRONMENT, told)
    return place


def out(place: Workplace, *words: str, **env: str) -> str:
    done = place.run("history", *words, **env)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_examples(name: str, place: Workplace) -> None:
    done = place.run("history", name, "--help")
    assert done.returncode == 0 and f"paceline history {name}" in done.stdout.split("Examples:")[1]


def test_log_prints_a_series_with_a_sparkline(nights: Workplace) -> None:
    with open_store(nights.path / "results/benchmark.db") as store:
        store.reset("sort", "twice the data", at="2026-01-05")
    lines = out(nights, "log", "sort", "wall_s", "--last", "3").splitlines()
    assert lines[0] == "sort wall_s (lower is better)"
    assert lines[1] == "▁▃▅▇█"
    assert lines[2].split() == ["time", "(UTC)", "revision", "session", "value", "change"]
    assert [line.split()[3] for line in lines[3:6]] == ["night-3", "night-4", "night-5"]
    assert "+8.33 %" in lines[3] and "13 s (of 2)" in lines[3]
    assert "reset: twice the data" in lines[4] and "%" not in lines[4] and "+7.14 %" in lines[5]
    assert lines[6:] == ["… 2 older: --last 5"]


def test_log_of_all_metrics_and_as_json(nights: Workplace) -> None:
    table = [line.split() for line in out(nights, "log", "sort").splitlines()]
    assert table[1][:4] == ["sort", "rows", "25", "+25"] and table[2][:4] == ["sort", "wall_s", "15", "s"]
    (series,) = json.loads(out(nights, "log", "sort", "wall_s", "--json", "--since", "2026-01-05"))
    assert (series["case"], series["unit"], series["direction"], series["epoch"]) == ("sort", "s", "lower", 0)
    assert [point["value"] for point in series["points"]] == [14.0, 15.0]
    assert series["points"][0]["samples"] == [10.0, 12.0] and series["points"][0]["session"] == "night-4"
    assert "join[n=1] wall_s" in out(nights, "log", "join", "wall_s")  # the entry means its cases


def test_log_names_series_in_words(nights: Workplace) -> None:
    other = {
        **ENVIRONMENT,
        "id": "env-2",
        "class_id": "0f" * 8,
        "comparable": {"python": "3.12", "cpu": "Zen"},
    }
    with open_store(nights.path / "results/benchmark.db") as store:
        store.add(session(6), other, [record("sort", number=6, environment="env-2")])
    titles = [line for line in out(nights, "log", "sort", "wall_s").splitlines() if line.startswith("sort")]
    assert sorted(titles) == [
        "sort wall_s (Python 3.11, lower is better)",
        "sort wall_s (Python 3.12, lower is better)",
    ]
    assert "wall_s (Python 3.12)" in out(nights, "log", "sort")


def test_log_and_export_are_in_the_order_of_commits(place: Workplace) -> None:
    """Without a repository: what was measured from the newest commit to the oldest, as asv does."""
    with open_store(place.path / "results/benchmark.db") as store:
        for number in range(1, 5):
            committed = session(9 - number).started_at
            store.add(
                session(number, commit_time=committed),
                ENVIRONMENT,
                [record("sort", float(number), number=number)],
            )
    lines = out(place, "log", "sort", "wall_s").splitlines()
    assert lines[1] == sparkline([4.0, 3.0, 2.0, 1.0])
    assert [line.split()[3] for line in lines[3:]] == ["night-4", "night-3", "night-2", "night-1"]
    assert sparkline([4.0, 3.0, 2.0, 1.0]) in out(place, "log", "sort")
    (series,) = json.loads(out(place, "log", "sort", "wall_s", "--json"))
    assert [point["value"] for point in series["points"]] == [4.0, 3.0, 2.0, 1.0]
    rows = json.loads(out(place, "export", "-", "--format", "json"))
    assert [row["value"] for row in rows] == [4.0, 3.0, 2.0, 1.0]
    asked = json.loads(out(place, "query", "SELECT value FROM point ORDER BY position", "--json"))
    assert [row["value"] for row in asked] == [4.0, 3.0, 2.0, 1.0]


def test_log_without_such_a_case_or_metric(nights: Workplace) -> None:
    for words, told in (
        (("srot", "wall_s"), "no case 'srot' in {db}; did you mean 'sort'?"),
        (("xyz", "wall_s"), "no case 'xyz' in {db}; 'paceline history list' shows those there are"),
        (("sort", "speed"), "no numbers of speed in sort; its metrics are: rows, wall_s"),
    ):
        done = nights.run("history", "log", *words)
        expected = told.format(db=nights.path / "results/benchmark.db")
        assert (done.returncode, done.stderr) == (2, f"paceline: {expected}\n")


@pytest.mark.parametrize("words", [["log", "sort"], ["export", "all.csv"]])
def test_a_time_that_is_none_is_not_taken_for_all_times(nights: Workplace, words: list[str]) -> None:
    done = nights.run("history", *words, "--since", "yesteday")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "paceline: 'yesteday' is no time: write it like 2026-11-16, or 7d for a week ago\n"
    assert not (nights.path / "all.csv").exists()


def test_a_terminal_without_bars(nights: Workplace) -> None:
    assert out(nights, "log", "sort", "wall_s", PYTHONIOENCODING="ascii").splitlines()[1] == "_-=*#"


def test_sparklines_of_odd_values() -> None:
    assert sparkline([1.0]) == "▄" and sparkline([2.0, 2.0]) == "▄▄"
    assert sparkline([-1.7e308, 1.7e308]) == "▁█"


def test_list(nights: Workplace) -> None:
    rows = json.loads(out(nights, "list", "--json"))
    assert [(row["case"], row["records"], row["metrics"]) for row in rows] == [
        ("join[n=1]", 5, 1),
        ("sort", 5, 2),
    ]
    assert "sort" not in out(nights, "list", "join*")
    sessions = json.loads(out(nights, "list", "--sessions", "--json"))
    assert next((row["session"], row["records"]) for row in sessions) == ("night-5", 2)
    assert nights.run("history", "list", "x", "--sessions").returncode == 2


def test_the_database_of_a_command(nights: Workplace) -> None:
    other = str(nights.path / "other.db")
    out(nights, "merge", other, "results/benchmark.db")
    assert "sort" in out(nights, "list", "--db", "other.db") and "sort" in out(
        nights, "list", PACELINE_DB=other
    )
    nights.write("paceline.yaml", 'history: {url: other.db}\nentries: [{name: a, command: ["true"]}]\n')
    (nights.path / "results/benchmark.db").unlink()
    assert "sort" in out(nights, "list")
    done = nights.run("history", "list", "--db", "missing.db")
    assert (
        done.returncode == 2 and "no history at" in done.stderr and not (nights.path / "missing.db").exists()
    )


def test_import_and_merge_count_what_is_new(nights: Workplace) -> None:
    assert "10 records" in out(nights, "merge", "all.db", "results/benchmark.db")
    told = json.loads(
        out(nights, "merge", "all.db", "results/benchmark.db", "results/benchmark.db", "--json")
    )
    assert (told["records"], told["known"]) == (0, 20)
    assert json.loads(out(nights, "import", "all.db", "--json"))["known"] == 10
    nights.write("suite.yaml", 'entries: [{name: a, command: ["true"]}]\n')
    assert nights.run("run", "suite.yaml", "-q", "--no-history").returncode == 0
    assert "1 record with" in out(nights, "import", "results") and "1 was there" in out(
        nights, "import", "results"
    )
    done = nights.run("history", "import", "suite.yaml")
    assert done.returncode == 2 and "suite.yaml" in done.stderr


def test_an_import_of_what_is_not_there_makes_no_database(place: Workplace) -> None:
    done = place.run("history", "import", "nosuch.json")
    assert (done.returncode, done.stderr) == (2, "paceline: nosuch.json: does not exist; check the path\n")
    assert not list(place.path.iterdir())


def test_alias_and_reset(nights: Workplace) -> None:
    out(nights, "alias", "join[n=1]", "sort")
    assert [row["case"] for row in json.loads(out(nights, "list", "--json"))] == ["sort"]
    out(nights, "alias", "join[n=1]", "--remove")
    assert nights.run("history", "alias", "join[n=1]", "--remove").returncode == 2
    assert nights.run("history", "alias", "a").returncode == 2
    assert "sort: a new epoch from 2026-01-04T00:00:00.000Z on" in out(
        nights, "reset", "sort", "--why", "because", "--at", "2026-01-04"
    )
    assert nights.run("history", "reset", "sort").returncode == 2
    assert nights.run("history", "reset", "nothing", "--why", "x").returncode == 2


def test_prune(nights: Workplace) -> None:
    assert "4 sessions with 8 records and 16 samples would be removed" in " ".join(
        out(nights, "prune", "--older-than", "1d", "--keep", "1", "--dry-run").split()
    )
    told = json.loads(out(nights, "prune", "--session", "night-1", "--vacuum", "--json"))
    assert told == {"sessions": ["night-1"], "records": 2, "samples": 4, "dry_run": False}
    for words in ((), ("--older-than", "tomorrow"), ("--older-than", "99999999y"), ("--keep", "-1")):
        assert nights.run("history", "prune", *words).returncode == 2


def test_remove(nights: Workplace) -> None:
    words = ("remove", "--case", "so*", "--before", "2026-01-04")
    assert "4 records and" not in out(nights, *words, "--dry-run")
    assert out(nights, *words, "--dry-run").splitlines()[0] == "sort"
    told = json.loads(out(nights, *words, "--json"))
    assert (told["cases"], told["records"], told["dry_run"]) == (["sort"], 2, False)
    assert "3 records and" in out(nights, "remove", "--case", "sort")
    for wrong in ((), ("--case", "nothing"), ("--case", "join*", "--before", "soon")):
        assert nights.run("history", "remove", *wrong).returncode == 2


def test_export(nights: Workplace) -> None:
    assert out(nights, "export", "all.csv") == "all.csv: 15 rows\n"
    printed = out(nights, "export", "-", "--metric", "rows", "--format", "json", "--since", "2026-01-06")
    assert [row["value"] for row in json.loads(printed)] == [25.0]
    assert out(nights, "export", "-").splitlines()[0].startswith("case_key,variant,version,metric,")
    assert nights.run("history", "export", "all.xlsx").returncode == 2
    assert nights.run("history", "export", "-", "--format", "parquet").returncode == 2


def test_query(nights: Workplace) -> None:
    sql = "SELECT name, duration FROM test_run ORDER BY start LIMIT 1"
    assert [line.split() for line in out(nights, "query", sql).splitlines()] == [
        ["name", "duration"],
        ["sort"],
    ]
    rows = json.loads(out(nights, "query", "SELECT ident, name FROM session", "--json", "--limit", "1"))
    assert rows == [{"ident": session(1).id, "name": "night-1"}]
    done = nights.run("history", "query", "DELETE FROM record")
    assert done.returncode == 2 and "may only read" in done.stderr


def test_push_and_pull(nights: Workplace, tmp_path: Path) -> None:
    assert "10 records" in out(nights, "push", str(tmp_path / "shared.db"))
    assert json.loads(out(nights, "push", str(tmp_path / "shared.db"), "--json"))["known"] == 10
    assert "10 records" in out(nights, "pull", str(tmp_path / "shared.db"), "--db", "copy.db")
    assert nights.run("history", "pull", str(tmp_path / "nothing.db")).returncode == 2
