"""What experiments stand on: environments, working trees, the journal, and trials run by the real session."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from git_commands import git
from paceline.errors import BuildError, ConfigError, SessionError
from paceline.experiments.builds import environments
from paceline.experiments.builds.build import Worktree, checkout, revisions_between
from paceline.experiments.builds.cache import make_once, prune
from paceline.experiments.builds.environments import build_venv, venv_key
from paceline.experiments.journal import Journal
from paceline.experiments.trials import TrialSetting, run_trial
from paceline.model import Status
from wheels import make_wheel

BENCH = """
import sys, os
from paceline import emit
with open({ledger!r}, "a") as ledger:
    ledger.write(os.environ.get("ARM", "-") + "\\n")
emit.metrics({{"size": float(sys.argv[sys.argv.index("--size") + 1]), "run_s": 1.0}})
emit.params({{"python": sys.executable, "cwd": os.getcwd(), "repo": os.environ.get("PACELINE_REPO", "")}})
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "bench.py").write_text(BENCH.format(ledger=str(tmp_path / "ledger")))
    path = tmp_path / "suite.yaml"
    path.write_text(
        "entries:\n"
        "  - name: one\n    script: bench.py\n    args: --size {matrix.size}\n    matrix: {size: [1]}\n"
        "  - name: two\n    command: '{python} {config_dir}/bench.py --size 5'\n"
        "  - name: by_path\n    command: python {config_dir}/bench.py --size 6\n"
    )
    return path


def ran(suite: Path) -> list[str]:
    ledger = suite.with_name("ledger")
    return ledger.read_text().splitlines() if ledger.exists() else []


def make_repo(path: Path, commits: int) -> list[str]:
    """A repository whose file says the number of the commit."""
    path.mkdir()
    git(path, "init", "-q", "-b", "main")
    for number in range(commits):
        (path / "number").write_text(str(number))
        git(path, "add", "-A")
        git(path, "commit", "-q", "-m", f"c{number}")
    return git(path, "rev-list", "--reverse", "main").split()


class TestEnvironments:
    def test_is_built_once_and_again_when_a_local_package_changes(self, tmp_path: Path) -> None:
        wheel = make_wheel(tmp_path, "tinypkg", "1.0", "VALUE = 1\n")

        def build() -> environments.Venv:
            return build_venv(
                ["./" + wheel.name],
                cache_dir=tmp_path / "cache",
                log=tmp_path / "log",
                base=tmp_path,
            )

        first = build()
        said = (tmp_path / "log").read_text()
        assert "tinypkg" in said
        program = "import tinypkg, paceline.emit; print(tinypkg.VALUE)"
        assert subprocess.check_output([first.python, "-c", program], text=True) == "1\n"
        assert any("tinypkg" in package for package in first.installed)
        assert build() == first
        assert (tmp_path / "log").read_text() == said
        make_wheel(tmp_path, "tinypkg", "1.0", "VALUE = 2\n")
        other = build()
        assert other.key != first.key
        assert subprocess.check_output([other.python, "-c", program], text=True) == "2\n"

    def test_is_built_without_uv(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        wheel = make_wheel(tmp_path, "tinypkg", "1.0", "VALUE = 1\n")
        monkeypatch.setattr(environments, "find_uv", lambda: None)
        venv = build_venv([str(wheel)], cache_dir=tmp_path / "cache", log=tmp_path / "log")
        program = "import tinypkg, paceline.emit; print(tinypkg.VALUE)"
        assert subprocess.check_output([venv.python, "-c", program], text=True) == "1\n"

    def test_failure_tells_the_end_of_the_log(self, tmp_path: Path) -> None:
        broken = tmp_path / "broken-1.0-py3-none-any.whl"
        broken.write_text("no wheel")
        with pytest.raises(BuildError, match="the whole log is in") as caught:
            build_venv([str(broken)], cache_dir=tmp_path / "cache", log=tmp_path / "log")
        assert (tmp_path / "log").read_text().splitlines()[-1].strip() in str(caught.value)
        assert not list((tmp_path / "cache" / "venvs").glob("*/"))

    def test_key_depends_on_packages_and_python(self) -> None:
        keys = {
            venv_key(["a==1"]),
            venv_key(["a==2"]),
            venv_key(["a==1", "b"]),
            venv_key(["a==1"], python="3.12"),
        }
        assert len(keys) == 4


class TestCache:
    def test_one_makes_it_and_the_others_wait(self, tmp_path: Path) -> None:
        made: list[int] = []
        directory = tmp_path / "things" / "one"

        def make(lock: int) -> dict[str, int]:
            directory.mkdir()
            made.append(lock)
            return {"count": len(made)}

        found: list[object] = []
        threads = [
            threading.Thread(target=lambda: found.append(make_once(directory, make))) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(made) == 1
        assert found == [{"count": 1}] * 8

    def test_what_a_killed_process_left_is_made_again(self, tmp_path: Path) -> None:
        directory = tmp_path / "one"
        program = (
            "import os, signal, sys, pathlib; from paceline.experiments.builds.cache import make_once\n"
            "directory = pathlib.Path(sys.argv[1])\n"
            "def make(lock):\n"
            "    directory.mkdir(); (directory / 'half').touch(); os.kill(os.getpid(), signal.SIGKILL)\n"
            "make_once(directory, make)\n"
        )
        killed = subprocess.run([sys.executable, "-c", program, directory], check=False)
        assert killed.returncode == -9
        assert (directory / "half").exists()

        def make(lock: int) -> dict[str, str]:
            directory.mkdir()
            return {"made": "whole"}

        assert make_once(directory, make) == {"made": "whole"}
        assert not (directory / "half").exists()

    def test_old_ones_are_removed(self, tmp_path: Path) -> None:
        def make(name: str) -> None:
            make_once(tmp_path / name, lambda lock: (tmp_path / name).mkdir() or {})

        make("old")
        make("new")
        long_ago = time.time() - 100 * 86400
        os.utime(tmp_path / "old.complete", (long_ago, long_ago))
        assert prune(tmp_path) == [tmp_path / "old"]
        assert not (tmp_path / "old").exists()
        assert (tmp_path / "new").exists()


class TestWorktrees:
    def test_each_revision_has_its_files_and_the_repository_no_trace(self, tmp_path: Path) -> None:
        revisions = make_repo(tmp_path / "repo", 4)
        before = sorted(path.name for path in (tmp_path / "repo" / ".git").iterdir())
        for number, revision in enumerate(revisions):
            tree = checkout(tmp_path / "repo", revision[:12], cache_dir=tmp_path / "cache")
            assert tree.revision == revision
            assert (tree.path / "number").read_text() == str(number)
        assert checkout(tmp_path / "repo", "main", cache_dir=tmp_path / "cache") == tree
        assert sorted(path.name for path in (tmp_path / "repo" / ".git").iterdir()) == before

    def test_a_url_is_mirrored_and_brought_up_to_date(self, tmp_path: Path) -> None:
        revisions = make_repo(tmp_path / "repo", 2)
        url = f"file://{tmp_path / 'repo'}"
        assert checkout(url, "main", cache_dir=tmp_path / "cache").revision == revisions[-1]
        git(tmp_path / "repo", "commit", "-q", "--allow-empty", "-m", "more")
        newest = git(tmp_path / "repo", "rev-parse", "HEAD")
        assert checkout(url, newest, cache_dir=tmp_path / "cache").revision == newest

    def test_revisions_between(self, tmp_path: Path) -> None:
        revisions = make_repo(tmp_path / "repo", 5)
        assert revisions_between(tmp_path / "repo", revisions[1], "main") == tuple(revisions[2:])
        with pytest.raises(BuildError, match="is no ancestor"):
            revisions_between(tmp_path / "repo", "main", revisions[1])

    def test_errors_say_what_to_do(self, tmp_path: Path) -> None:
        make_repo(tmp_path / "repo", 1)
        with pytest.raises(BuildError, match="has no revision 'nowhere'"):
            checkout(tmp_path / "repo", "nowhere", cache_dir=tmp_path / "cache")
        with pytest.raises(BuildError, match="is no git repository"):
            checkout(tmp_path / "cache", "main", cache_dir=tmp_path / "cache")


class TestJournal:
    def test_lines_are_there_for_the_next(self, tmp_path: Path) -> None:
        with Journal(tmp_path) as journal:
            journal.append("seed", seed=7)
            journal.append("trial", arm="a", values=[1.5])
        with Journal(tmp_path) as journal:
            assert [entry["kind"] for entry in journal.entries] == ["seed", "trial"]
            assert next(journal.of("trial"))["values"] == [1.5]

    @given(cut=st.integers(min_value=0, max_value=400))
    def test_a_torn_line_has_not_happened(self, tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
        directory = tmp_path_factory.mktemp("journal")
        with Journal(directory) as journal:
            for number in range(4):
                journal.append("trial", number=number)
        path = directory / "journal.jsonl"
        whole = path.read_bytes()
        path.write_bytes(whole[:cut])
        with Journal(directory) as journal:
            kept = whole[:cut].count(b"\n")
            assert [entry["number"] for entry in journal.entries] == list(range(kept))
            journal.append("trial", number=kept)
        numbers = [json.loads(line)["number"] for line in path.read_bytes().splitlines()]
        assert numbers == list(range(kept + 1))

    def test_damage_in_the_middle_is_an_error(self, tmp_path: Path) -> None:
        (tmp_path / "journal.jsonl").write_text('{"kind": "a"}\nnonsense\n{"kind": "b"}\n')
        with pytest.raises(SessionError, match="is damaged"):
            Journal(tmp_path)

    def test_one_process_at_a_time(self, tmp_path: Path) -> None:
        path = tmp_path / "journal.jsonl"
        with Journal(tmp_path):
            path.write_bytes(b'{"kind": "half a li')
            with pytest.raises(SessionError, match="another process works on"):
                Journal(tmp_path)
        assert path.read_bytes() == b'{"kind": "half a li', "a line that is being written was cut off"


class TestTrials:
    def setting(self, suite: Path, **changes: object) -> TrialSetting:
        given: dict[str, object] = {
            "name": "arm a",
            "directory": suite.parent / "experiment",
            "configs": (suite,),
            **changes,
        }
        return TrialSetting(**given)  # type: ignore[arg-type]

    def test_runs_once_whatever_is_asked(self, suite: Path) -> None:
        setting = self.setting(suite, env={"ARM": "a"}, params={"size": 3}, only=("one*", "two"))
        records = run_trial(setting, 1)
        assert [record.status for record in records] == [Status.PASSED, Status.PASSED]
        assert [record.metrics["size"].value for record in records] == [3.0, 5.0]
        assert records[0].case.name == "one[size=1]"
        assert records[0].case.variant == "arm a"
        assert records[0].details == {"setting": "arm a", "trial": 1}
        assert run_trial(setting, 1) == records
        assert ran(suite) == ["a", "a"]
        run_trial(setting, 2)
        assert ran(suite) == ["a"] * 4

    def test_environment_and_tree_are_those_of_the_setting(self, suite: Path) -> None:
        tmp = suite.parent
        (tmp / "tree").mkdir()
        venv = build_venv([], cache_dir=tmp / "cache", log=tmp / "log")
        tree = Worktree(path=tmp / "tree", revision="abc")
        records = run_trial(self.setting(suite, venv=venv, worktree=tree), 1)
        for record in records:
            assert record.status is Status.PASSED, record.reason
            assert record.params["python"] == str(venv.python)
            assert record.params["cwd"] == record.params["repo"] == str(tree.path)
            assert record.details["revision"] == "abc"

    def test_one_that_was_cut_short_goes_on(self, suite: Path) -> None:
        setting = self.setting(suite, only=("one*", "two"))
        run_trial(setting, 1)
        (lost,) = suite.parent.glob("experiment/trials/*-0001/two/record.json")
        lost.unlink()
        records = run_trial(setting, 1)
        assert [record.case.entry for record in records] == ["one", "two"]
        assert [record.attempt for record in records] == [1, 2]
        assert len(ran(suite)) == 3

    def test_data_is_set_up_once_unless_a_case_looks_into_its_own_session(self, suite: Path) -> None:
        setup = "data_setups:\n  - {name: data, command: 'bash -c \"echo data >> {config_dir}/ledger\"'}\n"
        suite.write_text(suite.read_text() + setup)
        setting = self.setting(suite, only=("two",))
        for number in (1, 2):
            run_trial(setting, number)
        assert ran(suite) == ["data", "-", "-"]
        needing = suite.read_text().replace("--size 5'", "--size 5 {needs:data}'\n    needs: [data]")
        suite.write_text(needing)
        other = self.setting(suite, name="other", only=("two",))
        for number in (1, 2):
            (record,) = run_trial(other, number)
            assert record.status is Status.PASSED
        assert ran(suite)[3:] == ["data", "-", "data", "-"]

    def test_arguments_that_are_no_flags_replace(self, suite: Path) -> None:
        setting = self.setting(suite, only=("one*",), args={"one": ("9", "--size", "4")})
        (record,) = run_trial(setting, 1)
        assert record.metrics["size"].value == 4.0
        assert "9" in record.command

    def test_a_parameter_that_nothing_takes_is_an_error(self, suite: Path) -> None:
        with pytest.raises(ConfigError, match="no selected entry has a parameter 'sise'"):
            run_trial(self.setting(suite, params={"sise": 3}), 1)
