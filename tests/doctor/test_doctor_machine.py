"""What the files of a laptop, a container, a quiet server or a system without them lead the doctor to say."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.machine_trees import CONTAINER, CPU, LAPTOP, QUIET_SERVER, write_machine
from paceline.doctor import limits, tuning
from paceline.doctor.machine import Machine, Remark, count_cpus


def levels(remarks: Mapping[str, Remark]) -> dict[str, str]:
    return {name: one.level for name, one in remarks.items()}


def tuned(root: Path, files: Mapping[str, str]) -> dict[str, Remark]:
    return {one.name: one for one in tuning.look(Machine(root=write_machine(root, files), environ={}))}


def limited(root: Path, files: Mapping[str, str]) -> dict[str, Remark]:
    return {one.name: one for one in limits.look(Machine(root=write_machine(root, files), environ={}))}


def test_a_quiet_server_is_fine(tmp_path: Path) -> None:
    found = tuned(tmp_path, QUIET_SERVER)
    assert set(levels(found).values()) == {"ok"}
    assert set(found) == set(tuning.SETTINGS) - {"power"}
    assert not any(one.fix for one in found.values())
    assert found["load"].value == "0.03 on 2 CPUs"


def test_a_laptop_at_work_is_told_what_to_tune(tmp_path: Path) -> None:
    found = tuned(tmp_path, LAPTOP)
    assert levels(found) == {
        **{"governor": "warn", "load": "warn", "pressure": "warn", "swap": "warn"},
        **{"clock": "warn", "power": "warn"},
        **{"turbo": "note", "SMT": "note", "huge pages": "note", "heat": "note"},
        **{"ASLR": "ok", "virtual": "ok"},
    }
    assert found["governor"].value == "performance, powersave"
    assert found["governor"].fix == "sudo cpupower frequency-set --governor performance"
    assert found["turbo"].fix == f"echo 1 | sudo tee /{CPU}/intel_pstate/no_turbo"
    assert found["power"].value == "battery, 41 %"
    assert found["swap"].value == "1.43 GiB of 1.91 GiB in use"
    assert found["pressure"].fix.startswith("sudo iotop")
    assert found["clock"].fix.startswith("echo tsc | sudo tee /sys/")


def test_boost_of_other_makers(tmp_path: Path) -> None:
    files = {name: text for name, text in QUIET_SERVER.items() if "no_turbo" not in name}
    found = tuned(tmp_path, {**files, f"{CPU}/cpufreq/boost": "1\n"})
    assert found["turbo"].fix == f"echo 0 | sudo tee /{CPU}/cpufreq/boost"


def test_a_battery_that_charges_is_fine(tmp_path: Path) -> None:
    found = tuned(tmp_path, {**LAPTOP, "sys/class/power_supply/BAT0/status": "Charging\n"})
    assert (found["power"].level, found["power"].value) == ("ok", "mains")


def test_a_system_that_tells_nothing_is_said_so_once(tmp_path: Path) -> None:
    found = tuned(tmp_path, {})
    assert list(found) == ["not told"]
    assert found["not told"].level == "note"
    assert found["not told"].value == ", ".join(name for name in tuning.SETTINGS if name != "power")
    assert set(limited(tmp_path, {})) == {"container", "open files"}
    assert {one.name for one in limits.look_at_ray(Machine(root=tmp_path, environ={}))} >= {"ports"}


def test_a_container_with_a_quota(tmp_path: Path) -> None:
    found = limited(tmp_path, CONTAINER)
    assert found["container"].value == "docker"
    assert found["cpu quota"].level == "warn"
    assert found["cpu quota"].value == "0.5 CPUs, stopped in 150 of 200 periods"
    assert found["memory limit"].level == "warn"
    assert found["memory limit"].value == "1 GiB, 99.1 % in use"
    assert found["killed"].value == "2 times"
    assert found["CPUs"].value == "1 of 8"
    assert tuned(tmp_path, {})["virtual"].level == "note"


def test_a_container_with_room(tmp_path: Path) -> None:
    found = limited(
        tmp_path,
        {**CONTAINER, "sys/fs/cgroup/memory.current": "1024\n", "sys/fs/cgroup/cpu.max": "max 100000\n"},
    )
    assert "cpu quota" not in found
    assert (found["memory limit"].level, found["memory limit"].value) == ("note", "1 GiB, < 0.01 % in use")


def test_a_limit_above_what_the_machine_has_is_none(tmp_path: Path) -> None:
    found = limited(
        tmp_path,
        {
            **CONTAINER,
            "sys/fs/cgroup/memory.max": "99999999999999\n",
            "sys/fs/cgroup/cpu.max": "800000 100000\n",
        },
    )
    assert "memory limit" not in found
    assert found["cpu quota"].level == "ok"


@pytest.mark.parametrize(("files", "level"), [(QUIET_SERVER, "ok"), (LAPTOP, "warn")])
def test_priority(tmp_path: Path, files: Mapping[str, str], level: str) -> None:
    assert limited(tmp_path, files)["priority"].level == level


def test_ports_that_the_kernel_gives_away(tmp_path: Path) -> None:
    files = {**QUIET_SERVER, "proc/sys/net/ipv4/ip_local_port_range": "1024\t65535\n"}
    machine = Machine(root=write_machine(tmp_path, files), environ={"RAY_ADDRESS": "auto"})
    found = {one.name: one for one in limits.look_at_ray(machine)}
    assert levels(found)["ports"] == "note"
    assert levels(found)["RAY_ADDRESS"] == "note"
    assert "sysctl" in found["ports"].fix


def test_a_temporary_directory_too_long_for_sockets(tmp_path: Path) -> None:
    machine = Machine(root=tmp_path, environ={"TMPDIR": f"/tmp/{'x' * 90}"})
    found = {one.name: one for one in limits.look_at_ray(machine)}
    assert found["TMPDIR"].fix == "export TMPDIR=/tmp"


@settings(max_examples=25)
@given(
    st.dictionaries(
        st.sampled_from(sorted({**QUIET_SERVER, **LAPTOP, **CONTAINER})),
        st.one_of(
            st.binary(max_size=40), st.text(max_size=40).map(str.encode), st.just(b"-1"), st.just(b"9" * 30)
        ),
    )
)
def test_no_content_of_a_file_ends_it(contents: dict[str, bytes]) -> None:
    with TemporaryDirectory() as name:
        root = write_machine(Path(name), {**QUIET_SERVER, **LAPTOP, **CONTAINER, **contents})
        machine = Machine(root=root, environ={})
        found = [*tuning.look(machine), *limits.look(machine), *limits.look_at_ray(machine)]
        assert all(one.level in ("ok", "note", "warn") and one.value for one in found)


def test_directories_in_the_place_of_files(tmp_path: Path) -> None:
    for name in {**LAPTOP, **CONTAINER}:
        (tmp_path / name).mkdir(parents=True)
    machine = Machine(root=tmp_path, environ={})
    assert [one.name for one in tuning.look(machine)] == ["not told"]
    assert {one.name for one in limits.look(machine)} == {"container", "open files"}


@pytest.mark.parametrize(
    ("listed", "count"), [("0", 1), ("0-3,8", 5), ("", 0), ("0-", 0), ("a", 0), ("0, 2-3", 3), ("3-0", 0)]
)
def test_lists_of_cpus(listed: str, count: int) -> None:
    assert count_cpus(listed) == count
