"""`benchmark_gpu` through the real nvidia-ml-py, against the library that stands in for the driver's."""

import subprocess
from pathlib import Path

from pytest_plugin.benchmark_suite import Suite

STUB = Path(__file__).parents[1] / "run" / "nvml_stub.c"
MIB = 1 << 20
TEST = "def test_it(benchmark_gpu):\n    with benchmark_gpu:\n        pass\n"


def test_gpus_are_read_while_the_block_runs(suite: Suite, tmp_path: Path) -> None:
    library = "libnvidia-ml.so.1"
    build = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{library}", "-o", str(tmp_path / library), str(STUB)]
    subprocess.run(build, check=True)
    (tmp_path / "memory").write_text("100")
    suite.write(TEST)
    done = suite.run_apart(LD_LIBRARY_PATH=str(tmp_path), STUB_MEMORY_FILE=str(tmp_path / "memory"))
    assert done.returncode == 0, done.stdout
    metrics = suite.record("test_it").metrics
    assert metrics["gpu_peak_memory_bytes"].value == 300 * MIB
    assert metrics["gpu_peak_memory_bytes"].unit == "bytes"
    assert metrics["gpu_peak_temperature_c"].value == 42


def test_without_a_driver_there_is_a_warning(suite: Suite) -> None:
    suite.write(TEST)
    suite.run().assert_outcomes(passed=1)
    assert any("no NVIDIA driver" in text for text in suite.record("test_it").warnings)
