"""GPU statistics through the real nvidia-ml-py, against a small library that stands in for the driver's."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

MIB = 1 << 20

COLLECT = """
import csv, json, sys, time
from pathlib import Path
from paceline.run.collectors import make_collectors
from paceline.run.collectors import device_ids

folder = Path(sys.argv[1])

def rows():
    path = folder / "gpustats.csv"
    return len(list(csv.reader(path.open()))) - 1 if path.exists() else 0

def wait_for_rows(count):
    patience = time.monotonic() + 60
    while rows() < count and time.monotonic() < patience:
        time.sleep(0.01)

collectors = make_collectors(folder, gpu_interval_s=0.02)
for collector in collectors:
    with collector:
        if "STUB_MEMORY_FILE" in __import__("os").environ and "--watch" in sys.argv:
            wait_for_rows(4)
            (folder / "memory").write_text("700")
            wait_for_rows(rows() + 6)
            (folder / "memory").write_text("100")
again = make_collectors(folder, gpu_interval_s=None)
print(json.dumps({
    "collectors": len(collectors),
    "off": len(again),
    "devices": device_ids(),
    "metrics": {name: value for collector in collectors for name, value in collector.metrics().items()},
    "warnings": [text for collector in collectors for text in collector.warnings()],
    "imported": "pynvml" in sys.modules,
}))
"""


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))


def build(folder: Path, *flags: str) -> Path:
    source = Path(__file__).with_name("nvml_stub.c")
    name = "libnvidia-ml.so.1"
    command = [
        "gcc",
        "-shared",
        "-fPIC",
        f"-Wl,-soname,{name}",
        *flags,
        "-o",
        str(folder / name),
        str(source),
    ]
    subprocess.run(command, check=True)
    return folder


def collect(folder: Path, stub: Path | None, *args: str, **settings: object) -> dict[str, Any]:
    """What the collectors say in a process that sees (or does not see) the library."""
    env = {**os.environ, **{name: str(value) for name, value in settings.items()}}
    env["STUB_MEMORY_FILE"] = str(folder / "memory")
    (folder / "memory").write_text("100")
    if stub is not None:
        env["LD_LIBRARY_PATH"] = str(stub)
    command = [sys.executable, "-c", COLLECT, str(folder), *args]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "gpustats.csv").open() as file:
        return list(csv.DictReader(file))


def test_two_gpus_whose_memory_changes(tmp_path: Path, stub: Path) -> None:
    said = collect(tmp_path, stub, "--watch")
    assert said["devices"] == ["0", "1"]
    assert said["metrics"] == {
        "gpu_peak_memory_bytes": 2100 * MIB,
        "gpu_mean_utilization_pct": 45.0,
        "gpu_peak_temperature_c": 42,
    }
    assert said["warnings"] == []
    found = rows(tmp_path)
    first, last = found[0], found[-1]
    assert list(first) == [
        "timestamp_utc",
        "gpu_id",
        "utilization_gpu_pct",
        "memory_used_bytes",
        "memory_total_bytes",
        "temperature_c",
        "power_draw_w",
    ]
    assert [row["gpu_id"] for row in found] == ["0", "1"] * (len(found) // 2)
    assert first["memory_used_bytes"] == str(100 * MIB) and last["memory_used_bytes"] == str(200 * MIB)
    assert str(1400 * MIB) in {row["memory_used_bytes"] for row in found}
    assert (first["power_draw_w"], first["utilization_gpu_pct"]) == ("250.5", "30")
    assert first["timestamp_utc"].endswith("Z") and len(first["timestamp_utc"]) == len(
        "2026-01-01T00:00:00.000Z"
    )


def test_a_short_run_is_sampled_at_both_ends(tmp_path: Path, stub: Path) -> None:
    assert collect(tmp_path, stub)["metrics"]["gpu_peak_memory_bytes"] == 300 * MIB
    assert len(rows(tmp_path)) >= 4


def test_no_driver_is_silent_and_free(tmp_path: Path) -> None:
    said = collect(tmp_path, None)
    if said["devices"]:
        pytest.skip("this machine has a driver")
    assert said == {
        "collectors": 0,
        "off": 0,
        "devices": [],
        "metrics": {},
        "warnings": [],
        "imported": False,
    }
    assert not (tmp_path / "gpustats.csv").exists()


@pytest.mark.parametrize("code", [9, 18])
def test_a_driver_that_is_not_loaded_or_does_not_fit_is_silent(tmp_path: Path, stub: Path, code: int) -> None:
    said = collect(tmp_path, stub, STUB_INIT=code)
    assert (said["collectors"], said["devices"], said["warnings"]) == (0, [], [])
    assert not (tmp_path / "gpustats.csv").exists()


def test_a_missing_symbol_is_one_warning_and_an_empty_cell(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    folder.mkdir()
    said = collect(tmp_path, build(folder, "-DWITHOUT_POWER"))
    assert said["warnings"] == ["GPU statistics are incomplete: power of GPU 0: Function Not Found"]
    assert said["metrics"]["gpu_peak_memory_bytes"] == 300 * MIB
    assert {row["power_draw_w"] for row in rows(tmp_path)} == {""}


def test_a_card_without_a_power_sensor_is_no_warning(tmp_path: Path, stub: Path) -> None:
    said = collect(tmp_path, stub, STUB_POWER_CODE=3)
    assert said["warnings"] == []
    assert {row["power_draw_w"] for row in rows(tmp_path)} == {""}


def test_a_lost_gpu_is_one_warning(tmp_path: Path, stub: Path) -> None:
    said = collect(tmp_path, stub, STUB_MEMORY_CODE=15)
    assert said["warnings"] == ["GPU statistics are incomplete: memory of GPU 0: GPU is lost"]
    assert "gpu_peak_memory_bytes" not in said["metrics"]
    assert said["metrics"]["gpu_mean_utilization_pct"] == 45.0


def test_gpus_that_cannot_be_listed_are_one_warning(tmp_path: Path, stub: Path) -> None:
    said = collect(tmp_path, stub, STUB_COUNT_CODE=999)
    assert said["warnings"] == ["GPU statistics are incomplete: the GPUs cannot be listed: Unknown Error"]
    assert (said["metrics"], said["devices"]) == ({}, [])


def test_a_driver_without_gpus(tmp_path: Path, stub: Path) -> None:
    said = collect(tmp_path, stub, STUB_GPUS=0)
    assert (said["devices"], said["metrics"], said["warnings"]) == ([], {}, [])


def test_a_file_that_cannot_be_written_is_one_warning(tmp_path: Path, stub: Path) -> None:
    (tmp_path / "gpustats.csv").mkdir()
    said = collect(tmp_path, stub)
    assert said["warnings"] == ["GPU statistics are incomplete: gpustats.csv: Is a directory"]
