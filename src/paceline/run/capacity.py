"""What this machine has to hand out to cases."""

import os

from paceline.run.gpu import device_ids
from paceline.run.scheduler import Capacity


def machine_capacity() -> Capacity:
    """CPUs this process may use, memory, and the GPUs that are visible to it."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = (
        device_ids()
        if visible is None
        else tuple(part.strip() for part in visible.split(",") if part.strip())
    )
    return Capacity(cpus=cpus, memory_bytes=memory_bytes, gpus=gpus)
