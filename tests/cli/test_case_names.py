"""A case has one name, and is found by it in whatever order its parameters are given."""

import json
from pathlib import Path

import pytest

from in_process import Here, make_here
from paceline.history import open_store
from paceline.model import is_case, one_spelling
from stored_records import ENVIRONMENT, record, series_of, session

SUITE = """
entries:
  - name: m
    command: [sh, -c, 'echo "{\\"work_s\\": 3}" > "$PACELINE_RESULTS_PATH/metrics.json"']
    matrix: {size: [60, 70], algorithm: [naive, fast]}
  - {name: after, needs: ["m[size=60,algorithm=naive]"], command: [echo, "{needs:m[size=60,algorithm=naive]}"]}
"""
NAME, OTHER = "m[algorithm=naive,size=60]", "m[size=60,algorithm=naive]"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    made = make_here(tmp_path, monkeypatch, capsys)
    (tmp_path / "paceline.yaml").write_text(SUITE)
    return made


def test_run_history_and_files_say_the_same_name(here: Here) -> None:
    done = here.run("run", "--session-name", "one")
    assert done.returncode == 0 and NAME in done.stdout and OTHER not in done.stdout
    assert (here.path / "results/one" / NAME).is_dir()
    assert NAME in here.run("history", "list").stdout


def test_any_order_is_accepted_wherever_a_name_is_given(here: Here) -> None:
    for name in ("one", "two"):
        assert here.run("run", "--session-name", name, "--only", f"{OTHER},after").returncode == 0
    assert sorted(path.name for path in (here.path / "results/one").glob("m*")) == [NAME]
    for words in (
        ("history", "log", OTHER, "work_s"),
        ("history", "log", "m[size=*,algorithm=naive]", "work_s"),
        ("history", "log", "m[size=60,*]", "work_s"),
        ("show", "one", OTHER),
        ("plan", "--only", OTHER),
    ):
        done = here.run(*words)
        assert done.returncode == 0 and NAME in done.stdout, (words, done.stdout, done.stderr)
    assert here.run("run", "--session-name", "none", "--only", "m[size=61,algorithm=naive]").returncode == 2
    compared = here.run("compare", "one", "two", "--case", OTHER, "--json")
    assert {one["case"] for one in json.loads(compared.stdout)["comparisons"]} == {NAME}
    assert here.run("regressions", "--case", OTHER).returncode == 0
    assert here.run("history", "reset", OTHER, "--why", "so").stdout.startswith(NAME)
    exported = here.run("history", "export", "-", "--case", OTHER)
    assert NAME in exported.stdout
    with open_store(here.path / "results/benchmark.db") as store:
        assert series_of(store, OTHER, "work_s", all_epochs=True)[0].case_key == NAME
        assert "work_s" in store.metrics(OTHER)


def test_a_former_name_finds_the_case(here: Here) -> None:
    with open_store(here.path / "results/benchmark.db") as store:
        for number in range(1, 6):
            key = "old[algorithm=naive,size=60]" if number < 4 else NAME
            store.add(session(number), ENVIRONMENT, [record(key, number=number)])
    for old, new in (("old[size=60,algorithm=naive]", OTHER), ("old", "m")):
        assert here.run("history", "alias", old, new).returncode == 0
        for wanted in (old, "old", "old[*]", "old[algorithm=naive,size=60]", new):
            done = here.run("history", "log", wanted, "wall_s")
            assert done.returncode == 0 and done.stdout.startswith(NAME), (wanted, done.stdout, done.stderr)
            assert done.stdout.count("night-") == 5
        assert here.run("regressions", "--case", old).returncode == 0
        assert here.run("history", "alias", old, "--remove").returncode == 0


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("m", "m", True),
        ("m*", NAME, True),
        (OTHER, NAME, True),
        ("m[size=60]", NAME, False),
        ("m[size=60,*]", NAME, True),
        ("m[size=6*]", NAME, True),
        ("m[size=7*]", NAME, False),
        ("m[*,size=60]", NAME, True),
        ("*[size=6?,algorithm=*]", NAME, True),
        ("m[size=60,algorithm=fast]", NAME, False),
        ("m[size=60,algorithm=naive,more=1]", NAME, False),
        ("m[b=2,a=1,x]", "m[a=1,x,b=2]", True),
        ("test_it[10-a]", "test_it[10-a]", True),
    ],
)
def test_names_and_globs(pattern: str, name: str, fits: bool) -> None:
    assert is_case(pattern, name) is fits


def test_one_spelling_is_that_of_the_sorted_parameters() -> None:
    assert one_spelling(OTHER) == NAME == one_spelling(NAME)
    assert one_spelling("m") == "m" and one_spelling("a.py::test[10-a]") == "a.py::test[10-a]"


def test_a_session_that_an_older_version_began_is_gone_on_with(here: Here) -> None:
    """Its directories and records have the parameters in the order of the matrix, and keep them."""
    assert here.run("run", "--session-name", "one").returncode == 0
    path = here.path / "results" / "one"
    (path / NAME).rename(path / OTHER)
    stored = path / OTHER / "record.json"
    data = json.loads(stored.read_text())
    data["case"]["name"] = OTHER
    stored.write_text(json.dumps(data))
    plan = (path / "plan.json").read_text()
    (path / "plan.json").write_text(plan.replace(f'"name": "{NAME}"', f'"name": "{OTHER}"'))
    assert OTHER in here.run("show", "one", NAME).stdout
    before = stored.stat().st_mtime_ns
    (path / "after" / "record.json").unlink()
    done = here.run("run", "--resume", "one")
    assert done.returncode == 0 and "Keeping 4 of 5" in done.stdout, done.stdout
    assert stored.stat().st_mtime_ns == before and not (path / NAME).exists()
    again = json.loads((path / "after" / "record.json").read_text())
    assert again["command"] == ["echo", str(path / OTHER)], "what it needs lies where it was made"
    assert json.loads(here.run("show", "one", NAME, "--json").stdout)["case"]["name"] == OTHER
    with open_store(here.path / "results/benchmark.db") as store:
        assert series_of(store, NAME, "work_s")[0].case_key == NAME
