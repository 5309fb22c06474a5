"""What a configuration says is done, or it is said that it is not: with the real command line."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from workplace import Workplace

TRUE = "entries: [{name: a, command: 'true'}]\n"


def test_the_session_name_of_the_configuration_is_used_and_the_option_wins(place: Workplace) -> None:
    place.write("suite.yaml", f"session_name: night\n{TRUE}")
    assert place.run("run", "suite.yaml", "--no-history").returncode == 0
    (night,) = (path.name for path in (place.path / "results").glob("night-2*"))
    assert place.record(night, "a")["status"] == "passed"
    assert place.run("run", "suite.yaml", "--no-history", "--session-name", "day").returncode == 0
    assert place.record("day", "a")["status"] == "passed"
    again = place.run("run", "suite.yaml", "--no-history", "--session-name", "day")
    assert (again.returncode, "session day exists already" in again.stderr) == (2, True)
    resumed = place.run("run", "suite.yaml", "--no-history", "--resume")
    assert resumed.returncode == 0 and "day" in resumed.stdout
    place.write("suite.yaml", f"session_name: 'at-{{time}}-utc'\n{TRUE}")
    planned = place.run("plan", "suite.yaml", "--json")
    assert re.fullmatch(r"at-\d{8}-\d{6}-utc", json.loads(planned.stdout)["session"])


def test_a_name_that_is_none_is_an_error_at_its_line(place: Workplace) -> None:
    place.write("suite.yaml", f"{TRUE}session_name: a/b\n")
    done = place.run("plan", "suite.yaml")
    assert done.returncode == 2
    assert done.stderr.startswith("suite.yaml:2: session_name: 'a/b' is no session name")


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a library that stands in for NVIDIA's: GPU n of 80 GiB uses n + 1 times what a file says."""
    folder = tmp_path_factory.mktemp("nvml")
    source = Path(__file__).parents[1] / "run" / "nvml_stub.c"
    library = "libnvidia-ml.so.1"
    command = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{library}", "-o", folder / library, source]
    subprocess.run(command, check=True)
    return folder


def test_memory_that_others_hold_on_a_gpu_is_said_in_the_record(place: Workplace, driver: Path) -> None:
    place.write(
        "suite.yaml",
        """
gpu_mem_use_warning_threshold: 0.25
entries:
  - {name: any, command: 'true'}
  - {name: own, command: 'true', resources: {gpus: 1}}
  - {name: lax, command: 'true', gpu_mem_use_warning_threshold: 0.9}
""",
    )
    used = place.write("used", str(15 << 10))
    env = {"LD_LIBRARY_PATH": str(driver), "STUB_MEMORY_FILE": str(used)}
    done = place.run("run", "suite.yaml", "--no-history", "--session-name", "s", **env)
    assert done.returncode == 0, done.stderr
    limit = "more than the gpu_mem_use_warning_threshold of 25 %"
    said = f"before it began, 30 GiB of the 80 GiB of GPU 1 were in use, {limit}"
    warnings = {name: record["warnings"] for name, record in place.records("s").items()}
    assert [text for text in warnings["any"] if "GPU" in text] == [said]
    assert not any("GPU" in text for text in (*warnings["own"], *warnings["lax"]))
    assert said in done.stdout


def test_without_a_threshold_or_a_driver_nothing_is_said(place: Workplace, driver: Path) -> None:
    place.write("suite.yaml", TRUE)
    used = place.write("used", str(40 << 10))
    env = {"LD_LIBRARY_PATH": str(driver), "STUB_MEMORY_FILE": str(used)}
    place.run("run", "suite.yaml", "--no-history", "--session-name", "s", **env)
    place.write("suite.yaml", f"gpu_mem_use_warning_threshold: 0\n{TRUE}")
    place.run("run", "suite.yaml", "--no-history", "--session-name", "t")
    for session in ("s", "t"):
        assert not any("GPU" in text for text in place.record(session, "a")["warnings"])


def test_a_record_that_cannot_be_written_ends_the_cases_beside_it(place: Workplace) -> None:
    """Not after an hour, and it is said why."""
    place.write(
        "spoil.sh",
        # Until the other case runs; then a directory is in the way of this one's own record.
        'until test -e "$2/running"; do sleep 0.01; done; mkdir "$1/record.json" && touch "$1/record.json/x"\n',
    )
    place.write(
        "suite.yaml",
        f"""
entries:
  - {{name: bad, command: [sh, spoil.sh, "{{session_entry_dir}}", "{place.path}"]}}
  - {{name: long, command: [sh, -c, "touch {place.path}/running; sleep 600"]}}
""",
    )
    done = place.run("run", "suite.yaml", "--no-history", "--session-name", "s", "--jobs", "2")
    assert done.returncode == 2
    why = "cannot write the record of bad into"
    assert f"the session cannot go on: {why}" in done.stdout + done.stderr
    assert "the cases that still run are ended" in done.stdout + done.stderr
    assert f"paceline: {why}" in done.stderr
    assert place.record("s", "long")["status"] == "interrupted"
