"""A port for a server that comes later, or goes down and comes back: nobody else may take it meanwhile."""

from paceline.run.ray.ports import Ports, reserve

_kept: list[Ports] = []


def free_port() -> int:
    """One on loopback that nobody listens on, below those that the kernel hands out to whoever asks for any."""
    ports = reserve(("server",))
    _kept.append(ports)  # The reservation ends with it.
    return ports["server"]
