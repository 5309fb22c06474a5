"""A Ray cluster of several nodes on this machine, for tests of the pool."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from paceline.run.ray.ports import PORT_VARIABLES, reserve

STORE_BYTES = 80_000_000
VARIABLES = {
    # Without it the nodes listen on the machine's outward address.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Ray gives up after 30 s, which a busy machine can take.
    "RAY_raylet_start_wait_time_s": "150",
    "RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S": "60",
    # Else about every tenth server that the client port forks dies of gRPC's threads before it has begun.
    "GRPC_ENABLE_FORK_SUPPORT": "0",
}


@dataclass
class SimulatedNodes:
    """The cluster, its addresses and its nodes by number; the first is the head."""

    cluster: Any
    address: str
    client_address: str
    nodes: list[Any] = field(default_factory=list)

    def add(self, **resources: Any) -> Any:
        node = self.cluster.add_node(object_store_memory=STORE_BYTES, **resources)
        self.nodes.append(node)
        return node

    def kill(self, node: Any) -> None:
        self.nodes.remove(node)
        self.cluster.remove_node(node, allow_graceful=False)


def end_workers(home: Path) -> None:
    """End the workers that outlive their nodes, as those of cosmos-xenna do, whose threads do not end."""
    mark = f"RAY_TMPDIR={home}\0".encode()
    for directory in Path("/proc").glob("[0-9]*"):
        # Not by psutil, which reads no further than the title that a worker writes over its variables.
        with suppress(OSError):
            if int(directory.name) != os.getpid() and mark in (directory / "environ").read_bytes():
                os.kill(int(directory.name), signal.SIGKILL)


@contextmanager
def simulated_nodes(*nodes: dict[str, Any]) -> Iterator[SimulatedNodes]:
    """Nodes with these resources, all on loopback; none is left afterwards."""
    home = Path(tempfile.mkdtemp(prefix="pl-", dir="/tmp"))
    (home / "ray").mkdir()
    # Ray's own choice for the first of these is the same for every cluster of a machine.
    ports = reserve(("dashboard", "agent", *PORT_VARIABLES, "client"))
    with pytest.MonkeyPatch.context() as patch:
        numbers = {variable: str(ports[purpose]) for purpose, variable in PORT_VARIABLES.items()}
        for name, value in {**VARIABLES, **numbers, "RAY_TMPDIR": str(home)}.items():
            patch.setenv(name, value)
        patch.delenv("RAY_ADDRESS", raising=False)
        # cosmos-xenna sets it in every process that it ran in; then Ray's workers see no GPU.
        patch.delenv("RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES", raising=False)
        # Every worker would compile the whole of Ray anew.
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        from ray._private import ray_constants
        from ray.cluster_utils import Cluster

        # The variable is read when Ray is imported, which another test may have done before.
        patch.setattr(ray_constants, "ENABLE_RAY_CLUSTER", False)
        head = {
            **nodes[0],
            "object_store_memory": STORE_BYTES,
            "include_dashboard": False,
            "dashboard_port": ports["dashboard"],
            "dashboard_agent_listen_port": ports["agent"],
            "ray_client_server_port": ports["client"],
        }
        cluster = Cluster(initialize_head=True, head_node_args=head)
        found = SimulatedNodes(cluster, cluster.address, f"ray://127.0.0.1:{ports['client']}")
        try:
            found.nodes.append(cluster.head_node)
            for resources in nodes[1:]:
                found.add(**resources)
            yield found
        finally:
            cluster.shutdown()
            end_workers(home)
            ports.release()
            shutil.rmtree(home, ignore_errors=True)
