"""What is to be known of workers and nodes of a Ray cluster that died."""

from time import monotonic, sleep
from typing import Any

# Ray misses a node that was killed after some fourteen seconds.
SETTLE_TIMEOUT_S = 120.0
# A probe starts a process, which takes a busy machine long; one at a node that died fails when Ray misses the node.
PROBE_TIMEOUT_S = 30.0


def death_behind(ray: Any, error: BaseException | None) -> BaseException | None:
    """What tells of a worker or node that died, among the causes of an error."""
    kinds = ray.exceptions
    deaths = (
        kinds.RayActorError,
        kinds.NodeDiedError,
        kinds.ObjectLostError,
        kinds.OutOfMemoryError,
        kinds.TaskUnschedulableError,
        kinds.WorkerCrashedError,
    )
    while error is not None and not isinstance(error, deaths) and not _is_cut_off(ray, error):
        error = error.__cause__
    return error


def _is_cut_off(ray: Any, error: BaseException) -> bool:
    """Whether a worker told, before it died too, that its node was gone; what a stage raises comes as a value."""
    return isinstance(error, ray.exceptions.RayTaskError) and isinstance(error, OSError)


def settle(ray: Any) -> None:
    """Wait until every node that the cluster lists answers, so that none is counted on that is gone."""
    deadline = monotonic() + SETTLE_TIMEOUT_S
    while not _all_answer(ray) and monotonic() < deadline:
        sleep(1.0)


def _all_answer(ray: Any) -> bool:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    probe = ray.remote(num_cpus=0, max_retries=0)(_answer)
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
    there = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
    try:
        ray.get([probe.options(scheduling_strategy=at).remote() for at in there], timeout=PROBE_TIMEOUT_S)
    except ray.exceptions.RayError:
        return False
    return True


def _answer() -> None: ...
