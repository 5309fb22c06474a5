"""The static site: all numbers are in it, a second build writes only what changed, nothing else is touched."""

import math
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard_site import NIGHTS, add_night, build_site, case_parts, data, make_history, numbers, values_of
from findings_nights import add_nights, noisy
from paceline.cli import cli
from paceline.dashboard.build import LONGEST_TAIL
from paceline.dashboard.encoding import data_file, file_id, pack_floats
from paceline.errors import PacelineError
from paceline.findings.detection import detect
from paceline.history import open_store
from paceline.model import Record, Status
from postgres_server import server
from stored_records import ENVIRONMENT, record, records, series_of, session
from workplace import Workplace


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_history(tmp_path_factory.mktemp("history") / "benchmark.db")


def all_files(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}


def test_the_site_has_every_value_exactly(history: Path, tmp_path: Path) -> None:
    build_site(history, tmp_path / "site")
    with open_store(history) as store:
        for key in store.cases():
            (series,) = {tuple(tuple(one.values) for one in series_of(store, key, "wall_s", all_epochs=True))}
            expected = [value for values in series for value in values]
            assert sorted(values_of(tmp_path / "site", key, "wall_s")) == sorted(expected)


def test_the_overview_tells_what_changed_and_what_broke(history: Path, tmp_path: Path) -> None:
    build_site(history, tmp_path / "site", title="Ours")
    overview = data(tmp_path / "site", "overview")
    (worse,) = [one for one in overview["incidents"] if one["kind"] == "worse"]
    assert (worse["case"], worse["metric"], worse["verdict"]) == ("slow[n=1]", "wall_s", "worse")
    before, after = worse["values"][: worse["at"]], worse["values"][worse["at"] :]
    assert max(before) < min(after)  # the curve shows what the verdict says
    assert overview["totals"]["open"] == 1 and overview["totals"]["broken"] == 1
    (group,) = overview["broken"]
    assert (group["reason"], [(one["case"], one["runs"]) for one in group["cases"]]) == (
        "exit code 3",
        [("breaks", 2)],
    )
    assert overview["title"] == "Ours" and overview["counts"]["sessions"] == NIGHTS
    assert overview["unsearched"] == 0
    assert {row["case"] for row in overview["last"]["rows"]} >= {"breaks", "steady"}
    (row,) = [row for row in overview["last"]["rows"] if row["case"] == "slow[n=1]"]
    assert row["spark"][-1] == float(f"{row['value']:.5g}") and len(row["spark"]) == 40
    page = data(tmp_path / "site", f"incident/{file_id(worse['id'])}")
    assert [one["id"] for one in page["findings"]] == [worse["finding"]]
    assert "1 open" in (tmp_path / "site/badges/regressions.svg").read_text()
    feed = (tmp_path / "site/feed.xml").read_text()
    assert "Ours: 1 open regression" in feed and f"#/incident/{worse['id']}" in feed


def test_all_totals_are_those_of_the_command(tmp_path: Path) -> None:
    """Lists are cut, numbers never: the tile, the badge, the feed and the command line count alike."""
    path = tmp_path / "benchmark.db"
    steps = {f"case-{at:02}": noisy(60, (4 * at + 4, 1.1 + 0.05 * at), seed=at) for at in range(13)}
    with open_store(path) as store:
        add_nights(store, steps)
        detect(store)
    build_site(path, tmp_path / "site", title="Many")
    printed = CliRunner().invoke(cli, ["regressions", "--db", str(path)]).stdout
    overview = data(tmp_path / "site", "overview")
    total = overview["totals"]["open"]
    assert total > 10 and len(re.findall("^i[0-9a-f]{8} ", printed, re.MULTILINE)) == 10  # ten are printed
    assert f"{total} open regressions in {overview['totals']['open_findings']} series" in printed
    assert f">{total} open<" in (tmp_path / "site/badges/regressions.svg").read_text()
    assert f"Many: {total} open regressions" in (tmp_path / "site/feed.xml").read_text()
    assert [one["id"] for one in overview["incidents"]][:10] == [
        line.split()[0] for line in printed.splitlines() if re.match("i[0-9a-f]{8} ", line)
    ]


def test_overlapping_sessions_leave_a_case_broken_once(tmp_path: Path) -> None:
    """Of two jobs at once, the one that began later fails, and the other's pass is recorded after that."""
    with open_store(tmp_path / "benchmark.db") as store:
        for number, status, started in (
            (1, Status.PASSED, "2026-01-02T09:00:00.000Z"),
            (2, Status.FAILED, "2026-01-02T08:00:00.000Z"),
        ):
            one = record("sort", number=number, status=status, started_at=started)
            store.add(session(number), ENVIRONMENT, [one])
    build_site(tmp_path / "benchmark.db", tmp_path / "site")
    (group,) = data(tmp_path / "site", "overview")["broken"]
    (case,) = group["cases"]
    assert (case["first_bad"]["name"], case["last_good"]["name"], case["strip"]) == (
        "night-2",
        "night-1",
        "pf",
    )


def test_a_second_build_changes_nothing_but_the_overviews_time(history: Path, tmp_path: Path) -> None:
    out = tmp_path / "site"
    build_site(history, out)
    before = all_files(out)
    times = {
        path: (out / path).stat().st_mtime_ns for path in before if "case/" in path or "session/" in path
    }
    built = build_site(history, out)
    after = all_files(out)
    assert {path for path in after if after[path] != before.get(path)} <= {"data/overview.js", "feed.xml"}
    assert (built.cases, built.sessions) == (0, 0)
    assert (built.kept_cases, built.kept_sessions) == (5, NIGHTS)
    assert times == {path: (out / path).stat().st_mtime_ns for path in times}


def test_a_new_night_rewrites_tails_only(tmp_path: Path) -> None:
    history = make_history(tmp_path / "benchmark.db", nights=12)
    out = tmp_path / "site"
    build_site(history, out)
    with open_store(history) as store:
        add_night(store, 12)
    built = build_site(history, out)
    assert built.sessions == 1
    assert len(values_of(out, "steady", "wall_s")) == 13
    fresh = tmp_path / "fresh"
    build_site(history, fresh)
    assert values_of(out, "slow[n=1]", "wall_s") == values_of(fresh, "slow[n=1]", "wall_s")


def test_a_long_tail_is_folded_into_the_large_file(tmp_path: Path) -> None:
    history, out = tmp_path / "benchmark.db", tmp_path / "site"
    with open_store(history) as store:
        for number in range(3 * LONGEST_TAIL):
            store.add(session(number), ENVIRONMENT, [record("sort", float(number + 1), number=number)])
    build_site(history, out)
    old, new = case_parts(out, "sort")
    assert (old["n"], new["n"]) == (3 * LONGEST_TAIL, 0)
    large = out / "data" / "case" / f"{file_id('sort')}-old.js"
    untouched = large.stat().st_mtime_ns
    with open_store(history) as store:
        store.add(session(500), ENVIRONMENT, [record("sort", 7.5, number=500)])
    build_site(history, out)
    assert large.stat().st_mtime_ns == untouched
    assert [part["n"] for part in case_parts(out, "sort")] == [3 * LONGEST_TAIL, 1]
    assert values_of(out, "sort", "wall_s")[-1] == 7.5


def test_a_record_that_changed_in_the_past_is_seen(tmp_path: Path) -> None:
    history, out = tmp_path / "benchmark.db", tmp_path / "site"
    with open_store(history) as store:
        for number in range(3 * LONGEST_TAIL):
            store.add(session(number), ENVIRONMENT, [record("sort", 1.0, number=number)])
    build_site(history, out)
    with open_store(history) as store:
        store.add(session(5), ENVIRONMENT, [record("sort", 2.0, number=5)])
    build_site(history, out)
    assert values_of(out, "sort", "wall_s")[5] == 2.0


def test_what_was_pruned_or_renamed_leaves_no_file(tmp_path: Path) -> None:
    history = make_history(tmp_path / "benchmark.db", nights=6)
    out = tmp_path / "site"
    build_site(history, out)
    with open_store(history) as store:
        store.prune(keep=2)
        store.alias("steady", "calm")
    build_site(history, out)
    assert len(list((out / "data" / "session").iterdir())) == 2
    assert not (out / "data" / "case" / f"{file_id('steady')}.js").exists()
    assert len(values_of(out, "calm", "wall_s")) == 2


def test_other_peoples_directories_are_refused(history: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("dear")
    with pytest.raises(PacelineError, match="not empty and no dashboard"):
        build_site(history, tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_an_empty_history_makes_a_site(tmp_path: Path) -> None:
    with open_store(tmp_path / "benchmark.db"):
        pass
    build_site(tmp_path / "benchmark.db", tmp_path / "site")
    assert data(tmp_path / "site", "overview")["counts"] == {"cases": 0, "sessions": 0, "records": 0}
    assert b"no results" in (tmp_path / "site" / "badges" / "session.svg").read_bytes()


def test_postgres_gives_the_same_site(history: Path, tmp_path: Path) -> None:
    url = server().new_database()
    with open_store(url) as store:
        store.merge_from(history)
    build_site(history, tmp_path / "one")
    build_site(url, tmp_path / "two")
    for key in ("slow[n=1]", "steady", "breaks"):
        assert values_of(tmp_path / "one", key, "wall_s") == values_of(tmp_path / "two", key, "wall_s")


@given(st.lists(records(), max_size=6))
@settings(max_examples=12)
def test_any_record_can_be_drawn(tmp_path_factory: pytest.TempPathFactory, found: list[Record]) -> None:
    directory = tmp_path_factory.mktemp("any")
    with open_store(directory / "benchmark.db") as store:
        store.add(session(1), ENVIRONMENT, found)
        kept = store.records(session(1).id)
    build_site(directory / "benchmark.db", directory / "site")
    page = data(directory / "site", f"session/{session(1).id}") if kept else {"n": 0}
    assert page["n"] == len(kept)
    for name in {name for one in kept for name in one.metrics}:
        expected = sorted(
            float(one.metrics[name].value)  # type: ignore[arg-type]
            for one in kept
            if name in one.metrics and is_number(one.metrics[name].value)
        )
        columns = [column for column in page["metrics"] if column["name"] == name]
        drawn = [value for column in columns for value in numbers(column["values"], page["n"])]
        assert sorted(value for value in drawn if value is not None) == pytest.approx(expected)


def is_number(value: Any) -> bool:
    try:
        return isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:
        return False


@given(st.lists(st.floats(allow_infinity=False), max_size=50))
def test_numbers_keep_every_digit(values: list[float]) -> None:
    expected = [None if value != value else value for value in values]
    assert numbers(pack_floats(values), len(values)) == expected


@given(st.recursive(st.text() | st.integers(-5, 5), lambda inner: st.dictionaries(st.text(), inner)))
@settings(max_examples=50)
def test_data_files_are_read_as_written(value: Any) -> None:
    import json
    import re

    text = data_file("x", value).decode()
    inner = text.removeprefix("(self.paceline=self.paceline||[]).push(['x','").removesuffix("'])\n")
    assert json.loads(re.sub(r"\\([\\'])", r"\1", inner)) == value
    assert not re.search(r"(?<!\\)(?:\\\\)*'", inner) and "\n" not in inner


def test_the_command_builds_and_says_where(place: Workplace, history: Path) -> None:
    done = place.run("dashboard", "build", "site", "--db", history)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "site/index.html"
    assert (place.path / "site" / "index.html").is_file()


def test_a_missing_database_is_told(place: Workplace) -> None:
    done = place.run("dashboard", "build", "site", "--db", "nowhere.db")
    assert done.returncode == 2 and "no history at" in done.stderr
    assert place.run("dashboard", "build", "site").returncode == 0  # nothing has run here yet: an empty site


def test_without_a_database_the_results_are_shown(place: Workplace) -> None:
    place.write("paceline.yaml", "entries:\n  - {name: hello, command: [echo, hello there]}\n")
    assert place.run("run", "--no-history", "--session-name", "one").returncode == 0
    done = place.run("dashboard", "build", "site", "--results", "results")
    assert done.returncode == 0, done.stderr
    session_file = next((place.path / "site" / "data" / "session").iterdir())
    assert data(place.path / "site", f"session/{session_file.stem}")["case"] == ["hello"]
    (files,) = (place.path / "site" / "data" / "files").rglob("*.js")
    assert "hello there" in files.read_text()


def test_the_bundle_is_in_the_wheel(tmp_path: Path) -> None:
    import sys
    import zipfile

    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"paceline/dashboard/static/app.js", "paceline/dashboard/static/app.css"} <= set(names)
    assert not [name for name in names if "node_modules" in name]
