"""What is installed, which programs and GPUs there are, and whether places can be written to."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.machine_trees import write_machine
from paceline.doctor import gpus, installed, places
from paceline.doctor.installed import Package, judge_extra, read_requirements
from paceline.doctor.machine import Machine, Remark
from paceline.doctor.places import Place
from paceline.history import open_store
from run.test_collectors_gpu import build

REPOSITORY = Path(__file__).parents[2]


def program(directory: Path, name: str, script: str) -> None:
    directory.mkdir(exist_ok=True)
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


class TestInstalled:
    def test_every_extra_of_the_project_is_told_what_for(self) -> None:
        project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
        assert set(installed.PURPOSES) == set(project["optional-dependencies"]) - {"all", "dev"}

    def test_our_own_installation(self) -> None:
        found = {one.name: one for one in installed.look()}
        assert found["Python"].value.startswith(f"{sys.version_info.major}.{sys.version_info.minor}.")
        assert found["core"].level == "ok"
        assert "click " in found["core"].value
        assert "mlflow-skinny " in found["mlflow"].value
        assert found["slack"].value == "needs no package"

    def test_requirements_as_metadata_writes_them(self) -> None:
        lines = [
            "click>=8.1.7",
            "ray[data,default]>=2.40; extra == 'ray'",
            'paceline[ray,xenna]; extra == "all"',
            'tqdm; extra == "xenna"',
            "psycopg[binary] (>=3.2) ; extra == 'postgres'",
        ]
        assert read_requirements(lines) == [
            Package(name="click", least="8.1.7"),
            Package(name="ray", least="2.40", extra="ray"),
            Package(name="tqdm", extra="xenna"),
            Package(name="psycopg", least="3.2", extra="postgres"),
        ]

    @pytest.mark.parametrize(
        ("versions", "level", "value"),
        [
            ({"ray": "2.40.0", "tqdm": "4"}, "ok", "ray 2.40.0, tqdm 4"),
            ({"ray": "2.41.0rc1", "tqdm": "4"}, "ok", "ray 2.41.0rc1, tqdm 4"),
            ({"ray": None, "tqdm": None}, "note", "not installed"),
            ({"ray": None, "tqdm": "4"}, "note", "without ray"),
            ({"ray": "2.9", "tqdm": "4"}, "warn", "ray 2.9 is older than 2.40"),
        ],
    )
    def test_an_extra(self, versions: dict[str, str | None], level: str, value: str) -> None:
        least = {"ray": "2.40", "tqdm": ""}
        packages = [Package(name=name, least=least[name], version=versions[name]) for name in versions]
        found = judge_extra("ray", "clusters", packages)
        assert (found.level, found.value) == (level, value)
        assert found.fix == ("" if level == "ok" else "pip install 'paceline[ray]'")

    def test_an_environment_without_pip_is_told_of_uv(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(installed, "find_spec", lambda name: None)
        assert (
            installed.pip_line("paceline[s3]") == f"uv pip install --python {sys.executable} 'paceline[s3]'"
        )

    @given(st.lists(st.text(max_size=60), max_size=5))
    def test_metadata_of_any_kind_is_read_or_passed_over(self, lines: list[str]) -> None:
        assert len(read_requirements(lines)) <= len(lines)


class TestTools:
    def test_found_missing_and_mute(self, tmp_path: Path) -> None:
        program(tmp_path / "bin", "uv", "echo 'uv 9.8.7 (some build)'")
        program(tmp_path / "bin", "podman", "echo nothing to say; exit 3")
        program(tmp_path / "bin", "chromium", "exit 1")
        found = {
            one.name: one for one in installed.look_at_tools(Machine(environ={"PATH": str(tmp_path / "bin")}))
        }
        assert found["uv"].value == f"9.8.7 ({tmp_path}/bin/uv)"
        assert found["podman"].value == f"{tmp_path}/bin/podman"
        assert found["chromium"].level == "ok"
        assert (found["git"].level, found["git"].fix) == ("warn", "sudo apt-get install git")
        assert found["conda or mamba"].level == "note"

    def test_one_that_cannot_be_run(self, tmp_path: Path) -> None:
        (tmp_path / "git").write_bytes(b"\x7fELFnot really")
        (tmp_path / "git").chmod(0o755)
        assert installed.version_of(str(tmp_path / "git")) == ""


class TestPlaces:
    def look(self, where: Path | str, *, root: Path = Path("/"), for_sqlite: bool = False) -> list[Remark]:
        place = Place(name="results", where=where, fix="choose another", for_sqlite=for_sqlite)
        return list(places.look(Machine(root=root), (place,)))

    def test_a_directory_that_is_there_and_one_that_will_be(self, tmp_path: Path) -> None:
        (there,) = self.look(tmp_path)
        (later,) = self.look(tmp_path / "a" / "b")
        assert {there.level, later.level} <= {"ok", "warn"}
        assert "B free)" in there.value
        assert "B free, will be made)" in later.value
        assert list(tmp_path.iterdir()) == []

    def test_below_a_file_it_is_made_nowhere(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        (found,) = self.look(tmp_path / "file")
        assert "will be made" in found.value

    def test_one_that_cannot_be_written_to(self) -> None:
        (found,) = self.look(Path("/proc/results"))
        assert (found.level, found.meaning, found.fix) == (
            "fail",
            "/proc cannot be written to",
            "choose another",
        )

    def test_little_room(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(places, "_room", lambda directory: (1 << 20, 10**6))
        assert [(one.level, one.meaning) for one in self.look(tmp_path)] == [("warn", "there is little room")]

    def test_sqlite_on_a_remote_disk(self, tmp_path: Path) -> None:
        mount = f"2 1 0:2 / {tmp_path} rw,relatime shared:1 - nfs4 server:/x rw"
        mounts = f"1 0 0:1 / / rw - ext4 /dev/a rw\n{mount}\nodd line\n"
        root = write_machine(tmp_path / "root", {"proc/self/mountinfo": mounts})
        found = self.look(tmp_path / "h", root=root, for_sqlite=True)
        assert [one.name for one in found] == ["results", "results disk"]
        assert (found[1].level, found[1].value) == ("warn", "nfs4")
        assert len(self.look(tmp_path / "h", root=root)) == 1

    def test_an_object_store_is_not_asked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        (found,) = self.look("s3://bucket/results")
        assert (found.level, found.fix) == ("note", "paceline list --results-dir s3://bucket/results")
        monkeypatch.setattr(places, "find_spec", lambda name: None)
        (found,) = self.look("s3://bucket/results")
        assert (found.level, found.fix) == ("fail", "pip install 'paceline[s3]'")


class TestHistory:
    def look(self, url: str | Path) -> dict[str, Remark]:
        return {one.name: one for one in places.look_at_history(str(url))}

    def test_none_yet(self, tmp_path: Path) -> None:
        found = self.look(tmp_path / "h.db")
        assert (found["database"].level, found["database"].fix) == ("note", "paceline run")
        assert not list(tmp_path.iterdir())

    def test_one_that_is_empty(self, tmp_path: Path) -> None:
        open_store(tmp_path / "h.db").close()
        before = (tmp_path / "h.db").read_bytes()
        found = self.look(tmp_path / "h.db")
        assert [one.level for one in found.values()] == ["ok", "ok", "ok"]
        assert found["contents"].value == "0 sessions, 0 records"
        assert (tmp_path / "h.db").read_bytes() == before

    def test_an_older_schema_is_left_as_it_is(self, tmp_path: Path) -> None:
        stored = sorted((REPOSITORY / "tests/history/schemas").glob("*0001*"))[0]
        path = tmp_path / "h.db"
        restore(stored, path)
        before = path.read_bytes()
        found = self.look(path)
        assert (found["schema"].level, found["schema"].value) == ("note", "0001")
        assert path.read_bytes() == before

    @pytest.mark.parametrize(
        ("content", "said"),
        [(b"no database at all, but long enough", "file is not a database"), (None, "unable to")],
    )
    def test_one_that_cannot_be_opened(self, tmp_path: Path, content: bytes | None, said: str) -> None:
        path = tmp_path / "h.db"
        if content is None:
            path.mkdir()
        else:
            path.write_bytes(content)
        found = self.look(path)["database"]
        assert found.level == "fail"
        assert said in found.value
        assert found.fix

    def test_a_url_that_is_none(self) -> None:
        found = self.look("mysql://user:secret@host/x")["database"]
        assert found.level == "fail"
        assert "secret" not in found.value + found.fix


def restore(stored: Path, path: Path) -> None:
    import sqlite3

    if stored.suffix == ".sql":
        connection = sqlite3.connect(path)
        connection.executescript(stored.read_text())
        connection.close()
    else:
        path.write_bytes(stored.read_bytes())


class TestGpus:
    def look(self, tmp_path: Path, **files: str) -> dict[str, Remark]:
        machine = Machine(root=tmp_path, environ={"PATH": str(tmp_path / "bin")})
        return {one.name: one for one in gpus.look(machine)}

    def test_none(self, tmp_path: Path) -> None:
        assert self.look(tmp_path)["GPUs"].level == "ok"

    def test_a_driver_without_gpus(self, tmp_path: Path) -> None:
        write_machine(tmp_path, {"proc/driver/nvidia/version": "NVRM version: 560\n"})
        assert self.look(tmp_path)["GPUs"].level == "warn"

    def test_by_the_drivers_program(self, tmp_path: Path) -> None:
        rows = "NVIDIA H100, 81559, 97, Disabled\\nNVIDIA H100, [N/A], 0, Enabled\\nodd"
        program(tmp_path / "bin", "nvidia-smi", f"printf '{rows}\\n'")
        found = self.look(tmp_path)
        assert found["GPU 0"].value == "NVIDIA H100, 79.6 GiB"
        assert found["GPU 0 use"].level == "warn"
        assert found["GPU 0 driver"].fix == "sudo nvidia-smi -pm 1"
        assert found["GPU 1"].value == "NVIDIA H100"
        assert {name for name in found if name.startswith("GPU 1 ")} == set()

    def test_a_program_that_fails(self, tmp_path: Path) -> None:
        program(tmp_path / "bin", "nvidia-smi", "echo no driver >&2; exit 9")
        assert self.look(tmp_path)["GPUs"].fix.startswith("nvidia-smi")

    def test_by_nvml(self, tmp_path: Path) -> None:
        stub = build(tmp_path)
        code = (
            "from paceline.doctor import gpus; from paceline.doctor.machine import Machine\n"
            "for one in gpus.look(Machine(environ={})): print(one.name, one.level, one.value)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "LD_LIBRARY_PATH": str(stub)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.startswith("GPU 0 ok unknown")
