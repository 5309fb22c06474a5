"""`benchmark_gpu`: what NVIDIA's library says while a block runs."""

import os
from contextlib import ExitStack
from pathlib import Path

from paceline.pytest_plugin.measuring import Measured
from paceline.run.gpu import GpuCollector, gpu_collectors

INTERVAL_S = 0.1


class GpuRegion:
    """`with benchmark_gpu:`; of several uses in one test the last one's figures stay."""

    def __init__(self, measured: Measured) -> None:
        self._measured = measured
        self._stack = ExitStack()

    def __enter__(self) -> None:
        # The curve is not kept: a test has no directory of its own.
        collectors = gpu_collectors(Path(os.devnull), INTERVAL_S)
        if not collectors:
            self._measured.warn(
                "benchmark_gpu: there is no NVIDIA driver, or no nvidia-ml-py (paceline[gpu])"
            )
        for collector in collectors:
            self._stack.callback(self._keep, collector)
            self._stack.enter_context(collector)

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _keep(self, collector: GpuCollector) -> None:
        self._measured.metrics.update(collector.metrics())
        self._measured.warnings.extend(collector.warnings())
