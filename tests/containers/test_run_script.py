"""tools/run.sh: the engine gets exactly the words that were meant for it, whatever is in them."""

import csv
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stub_engine import HOSTILE, REPOSITORY, Desk, following, read_back

SUITE = "entries:\n  - name: one\n    command: ['true']\n"
WORDS = st.lists(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12), max_size=4
)


def mount_fields(value: str) -> dict[str, str]:
    """A value of `--mount` as engines read it: one record of CSV."""
    (record,) = csv.reader([value], strict=True) if "\n" not in value else csv.reader(value.splitlines(True))
    return dict(field.partition("=")[::2] for field in record)


def mounts_of(argv: list[str]) -> dict[str, dict[str, str]]:
    return {fields["target"]: fields for fields in map(mount_fields, following(argv, "--mount"))}


def after_image(argv: list[str], image: str = "img:1") -> list[str]:
    return argv[argv.index(image) + 1 :]


@pytest.fixture
def suite_desk(desk: Desk) -> Desk:
    (desk.path / "suite.yaml").write_text(SUITE)
    return desk


def test_a_suite_runs_with_its_directories(suite_desk: Desk) -> None:
    done = suite_desk.call("run.sh", "--image", "img:1", "--shm-size", "8g", "suite.yaml", "--jobs", "2")
    assert done.returncode == 0, done.stderr
    argv = suite_desk.argv
    here = str(suite_desk.path)
    results = f"{here}/results"
    assert argv[:3] == ["run", "--rm", "--init"]
    assert "--shm-size=8g" in argv
    assert mounts_of(argv) == {
        here: {"type": "bind", "source": here, "target": here, "readonly": ""},
        results: {"type": "bind", "source": results, "target": results},
    }
    assert following(argv, "--workdir") == [here]
    assert following(argv, "--env") == [f"PACELINE_DB={results}/benchmark.db"]
    assert after_image(argv) == ["run", "suite.yaml", "--jobs", "2"]
    assert Path(results).is_dir()


def test_who_runs(suite_desk: Desk) -> None:
    suite_desk.call("run.sh", "--shell")
    mine = [word for word in suite_desk.argv if word.startswith("--user")]
    assert mine == ([] if os.geteuid() == 0 else [f"--user={os.geteuid()}:{os.getegid()}"])
    suite_desk.call("run.sh", "--shell", "--user", "7:8")
    assert "--user=7:8" in suite_desk.argv


@pytest.mark.parametrize(("engine", "further"), [("docker", []), ("podman", ["--userns=keep-id"])])
def test_a_plain_user_stays_that_user(engine: str, further: list[str]) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    # Not below pytest's own directory, which other users may not enter.
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        Path(directory).chmod(0o777)
        desk = Desk(Path(directory))
        desk.add_engine(engine)
        done = desk.call("run.sh", "--engine", engine, "--shell", cwd=Path("/"), user=65534)
        if "Permission denied" in done.stderr:
            pytest.skip("this checkout is its owner's alone to read")
        assert done.returncode == 0, done.stderr
        assert [word for word in desk.argv if word.startswith("--user")] == ["--user=65534:65534", *further]


def test_a_dry_run_prints_what_would_be_run_and_does_nothing(suite_desk: Desk) -> None:
    words = ["--image", "img:1", "--shm-size=1g", "suite.yaml", "--", *(f"--only={word}" for word in HOSTILE)]
    printed = suite_desk.call("run.sh", "--dry-run", *words)
    assert printed.returncode == 0, printed.stderr
    assert not suite_desk.was_called
    assert not (suite_desk.path / "results").exists()
    done = suite_desk.call("run.sh", *words)
    assert done.returncode == 0, done.stderr
    assert printed.stdout.count("\n") == 1
    assert read_back(printed.stdout) == ["docker", *suite_desk.argv]
    assert after_image(suite_desk.argv) == ["run", "suite.yaml", *(f"--only={word}" for word in HOSTILE)]
    assert not (suite_desk.path / "pwned").exists()


@settings(max_examples=25)
@given(words=WORDS, others=WORDS)
def test_any_word_reaches_the_engine_as_it_is(
    tmp_path_factory: pytest.TempPathFactory, words: list[str], others: list[str]
) -> None:
    desk = Desk(tmp_path_factory.mktemp("desk"))
    desk.add_engine("docker")
    given_ones = [word for other in others for word in ("--engine-arg", other, f"--volume={other}")]
    done = desk.call(
        "run.sh", "--image=img:1", "--shm-size=1g", *given_ones, "--shell", "--", "program", *words
    )
    assert done.returncode == 0, done.stderr
    argv = desk.argv
    assert argv[-len(words) - 2 :] == ["--entrypoint=program", "img:1", *words]
    between = argv[argv.index("--shm-size=1g") + 1 : len(argv) - len(words) - 2]
    assert between == [*(f"--volume={other}" for other in others), *others]


@pytest.mark.parametrize("word", HOSTILE)
def test_options_take_hostile_values(desk: Desk, word: str) -> None:
    done = desk.call(
        "run.sh", "--shell", "--user", word, "--memory", word, "--network", word, "--shm-size=2g"
    )
    assert done.returncode == 0, done.stderr
    expected = [f"--memory={word}", f"--network={word}"]
    assert [one for one in desk.argv if one.startswith(("--memory", "--network"))] == expected
    assert (f"--user={word}" in desk.argv) is bool(word)
    assert not (desk.path / "pwned").exists()


def test_directories_may_have_any_name(desk: Desk) -> None:
    names = ["a b,c", 'say "so"', "$(touch pwned)", "line\nbreak", "--rm", "co:lon", "it's"]
    work = desk.path / 'w"or,k\n$(touch pwned)'
    work.mkdir()
    items = ""
    for position, name in enumerate(names):
        (desk.path / name).mkdir()
        quoted = str(desk.path / name).replace("'", "''").replace("\n", "\n\n").replace("$", "$$")
        items += f"  - {{name: p{position}, host_path: '{quoted}', container_path: /data/{position}}}\n"
    (work / "-suite.yaml").write_text(f"paths:\n{items}{SUITE}")
    done = desk.call("run.sh", "--image", "img:1", "--", "--config", "-suite.yaml", cwd=work)
    assert done.returncode == 0, done.stderr
    mounts = mounts_of(desk.argv)
    sources = {target: fields["source"] for target, fields in mounts.items() if target.startswith("/data")}
    assert sources == {f"/data/{position}": str(desk.path / name) for position, name in enumerate(names)}
    assert mounts[str(work)]["source"] == str(work)
    assert not list(desk.path.rglob("pwned"))


def test_values_of_variables_stay_off_the_command_line(suite_desk: Desk) -> None:
    suite = "secrets: [STUB_SECRET]\n" + SUITE + "    env: {A: '${OTHER:-x}', B: '${HOME}'}\n"
    (suite_desk.path / "suite.yaml").write_text(suite)
    done = suite_desk.call(
        "run.sh", "--env", "THIRD", "suite.yaml", STUB_SECRET="hush-hush", OTHER="open", THIRD="third-value"
    )
    assert done.returncode == 0, done.stderr
    argv = suite_desk.argv
    assert {"STUB_SECRET", "OTHER"} <= set(following(argv, "--env"))
    assert "HOME" not in following(argv, "--env")
    assert "--env=THIRD" in argv
    assert not [word for word in argv if "hush-hush" in word or "third-value" in word]
    assert (suite_desk.path / "argv.secret").read_text() == "hush-hush"


@pytest.mark.parametrize("name", ["TOKEN=hush", "A B", "$(touch pwned)", "", "-x", "A\nB"])
def test_a_variable_is_given_by_name_only(desk: Desk, name: str) -> None:
    done = desk.call("run.sh", "--env", name, "--shell")
    assert done.returncode == 2
    assert "name of a variable" in done.stderr
    assert "hush" not in done.stderr
    assert not desk.was_called
    assert not (desk.path / "pwned").exists()


@pytest.mark.parametrize(
    ("engine", "gpus", "expected"),
    [
        ("docker", "none", []),
        ("docker", "all", ["--gpus=all"]),
        ("docker", "2", ["--gpus=2"]),
        ("docker", "device=0,1", ['--gpus="device=0,1"']),
        ("podman", "all", ["--device=nvidia.com/gpu=all"]),
        ("podman", "device=0,1", ["--device=nvidia.com/gpu=0", "--device=nvidia.com/gpu=1"]),
    ],
)
def test_gpus(desk: Desk, engine: str, gpus: str, expected: list[str]) -> None:
    desk.add_engine(engine)
    for words, env in (["--gpus", gpus], {}), ([], {"GPUS": gpus}):
        done = desk.call("run.sh", "--engine", engine, "--shell", *words, **env)
        assert done.returncode == 0, done.stderr
        assert [word for word in desk.argv if "gpu" in word] == expected


@pytest.mark.parametrize("gpus", ["some", "$(touch pwned)", "1,2", "--all"])
def test_other_gpus_are_refused(desk: Desk, gpus: str) -> None:
    done = desk.call("run.sh", "--gpus", gpus, "--shell")
    assert done.returncode == 2
    assert "--gpus is all, none" in done.stderr
    assert not desk.was_called


def test_sources_of_the_host(desk: Desk) -> None:
    library = desk.path / "my, library"
    library.mkdir()
    done = desk.call(
        "run.sh", "--shell", "--use-host-source", "--use-host-curator", HOST_CURATOR_DIR=str(library)
    )
    assert done.returncode == 0, done.stderr
    mounts = mounts_of(desk.argv)
    assert mounts["/opt/paceline/src"]["source"] == str(REPOSITORY / "src")
    assert mounts["/opt/Curator"]["source"] == str(library)
    assert all("readonly" in fields for fields in mounts.values())
    assert "--env=PYTHONPATH=/opt/Curator:/opt/paceline/src" in desk.argv
    missing = desk.call("run.sh", "--shell", "--use-host-curator")
    assert missing.returncode == 2
    assert "HOST_CURATOR_DIR" in missing.stderr


def test_the_engine_can_be_chosen(desk: Desk) -> None:
    other = desk.add_engine("my engine")
    desk.add_engine("podman")
    for words, env in (["--engine", str(other)], {}), ([], {"PACELINE_ENGINE": str(other)}):
        done = desk.call("run.sh", "--dry-run", "--shell", *words, **env)
        assert read_back(done.stdout)[0] == str(other)
    assert read_back(desk.call("run.sh", "--dry-run", "--shell").stdout)[0] == "docker"
    none = desk.call("run.sh", "--shell", "--engine", "no-such-engine")
    assert none.returncode == 2
    assert "no-such-engine" in none.stderr


def test_what_is_wrong_is_said_before_an_engine_is_asked(suite_desk: Desk) -> None:
    (suite_desk.path / "bad.yaml").write_text("entires: []\n")
    for words, message in (
        (["bad.yaml"], "unknown key 'entires'"),
        (["nosuch.yaml"], "nosuch.yaml"),
        (["suite.yaml", "--no-such-option"], "No such option"),
        (["--shm-size"], "--shm-size needs a value"),
        (["--image", "-x", "suite.yaml"], "cannot begin with a dash"),
        (["--command", "rm", "suite.yaml"], "'rm' is not one of"),
    ):
        done = suite_desk.call("run.sh", *words)
        assert done.returncode == 2, words
        assert message in done.stderr
        assert not suite_desk.was_called


def test_a_host_without_paceline_is_told_so(suite_desk: Desk) -> None:
    done = suite_desk.call("run.sh", "suite.yaml", PYTHON_BIN="no-such-python")
    assert done.returncode == 2
    assert "PYTHON_BIN" in done.stderr


def test_the_exit_code_is_the_containers(suite_desk: Desk) -> None:
    assert suite_desk.call("run.sh", "suite.yaml", STUB_CODE="130").returncode == 130


def test_help_is_the_text_above_the_code(desk: Desk) -> None:
    done = desk.call("run.sh", "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("Run a suite in Paceline's container.\n")
    assert "--use-host-source" in done.stdout
    assert "set -euo" not in done.stdout
