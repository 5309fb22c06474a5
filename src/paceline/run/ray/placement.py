"""Which node of a pool a case gets: by its resources and labels, a whole node for an exclusive one."""

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from paceline.model import Case, Resources
from paceline.run.scheduler import Grant

REFRESH_S = 2.0
"""How old the list of nodes may be: it is how soon a node that joins gets work."""
AVOID_S = 30.0
"""How long a node that lost a case or let one wait gets none: Ray needs some 15 s to notice that a node is dead."""
SMALLEST_CPUS = 0.001
"""What a case that asks for no CPU reserves, so that one that asks for all of a node's never runs beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine of the pool and what it has."""

    id: str
    name: str
    cpus: float
    gpus: int = 0
    memory_bytes: int = 0
    labels: dict[str, str] = field(default_factory=dict)


def read_nodes(rows: Sequence[dict[str, Any]]) -> list[Node]:
    """The living nodes among those that `ray.nodes()` lists."""
    nodes = []
    for row in rows:
        if row.get("Alive"):
            resources = row.get("Resources", {})
            host = row.get("NodeManagerHostname") or row.get("NodeManagerAddress", "")
            node = Node(
                id=row["NodeID"],
                name=f"{host}/{row['NodeID'][:8]}",
                cpus=float(resources.get("CPU", 0)),
                gpus=int(resources.get("GPU", 0)),
                memory_bytes=int(resources.get("memory", 0)),
                labels=dict(row.get("Labels") or {}),
            )
            nodes.append(node)
    return nodes


@dataclass(slots=True, kw_only=True, eq=False)
class Slot:
    """A part of a node that runs a case, and is kept for the next one of its size; ready once it has an actor that is.

    `places` are directories of ours that the actor has a copy of, or sees itself.
    """

    node: Node
    reserved: Resources
    actor: Any = None
    environment_id: str = ""
    places: dict[str, str] = field(default_factory=dict)

    @property
    def is_ready(self) -> bool:
        return bool(self.environment_id)


class PoolLedger:
    """Keeps account of what slots reserve of each node. The scheduler and running cases ask it.

    `look` lists the nodes, `end` is called with a slot that is not used any more.
    """

    refresh_s: float | None = REFRESH_S

    def __init__(
        self, look: Callable[[], list[Node]], jobs: int = 1, end: Callable[[Slot], None] = lambda slot: None
    ) -> None:
        self._look = look
        self._jobs = jobs
        self._end = end
        self._lock = threading.Lock()
        self._nodes: dict[str, Node] = {}
        self._looked = float("-inf")
        self._running: dict[str, tuple[Case, Slot | None]] = {}
        self._idle: list[Slot] = []
        self._avoided_until: dict[str, float] = {}
        self._unusable: dict[str, str] = {}
        self._no_room_for: set[str] = set()

    @property
    def idle(self) -> bool:
        return not self._running

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def has_free_slot(self) -> bool:
        return len(self._running) < self._jobs

    @property
    def slots(self) -> list[Slot]:
        with self._lock:
            return [*self._idle, *(slot for _, slot in self._running.values() if slot is not None)]

    def take(self, case: Case) -> Grant | None:
        """A part of a node, or None while there is no room. A case that no node could run starts without one."""
        with self._lock:
            self._refresh()
            # The scheduler asks for every waiting case, and most are alike.
            size = repr(case.resources)
            if not self.has_free_slot or size in self._no_room_for:
                return None
            # Nodes that cases without one could have: those go first, or new ones would keep them waiting for ever.
            waiting = [other for other, slot in self._running.values() if slot is None]
            node = self._choose(case, {node.id for other in waiting for node in self._candidates(other)})
            if node is None and self._running and self._candidates(case):
                self._no_room_for.add(size)
                return None
            self._reserve(case, node)
            return Grant(slot=0)

    def give_back(self, case: Case) -> None:
        with self._lock:
            _, slot = self._running.pop(case.name)
            self._no_room_for.clear()
            if slot is not None and slot.is_ready:
                self._idle.append(slot)
            elif slot is not None:
                self._end(slot)

    def place(self, case: Case, *, elsewhere: bool = False) -> Slot | None:
        """The slot of a running case, or a new one if it has none; None while there is no room.

        `elsewhere` is for a case that waits too long on its node, which it keeps if no other has room.
        """
        with self._lock:
            self._refresh()
            slot = self._running[case.name][1]
            if slot is not None and slot.node.id in self._nodes and not elsewhere:
                return slot
            node = self._choose(case, {slot.node.id} if slot else set())
            if node is None and elsewhere:
                return None
            if slot is not None:
                self._end(slot)
            return self._reserve(case, node)

    def leave(self, case: Case, unusable: str = "") -> None:
        """Take a case off its node, which gets none for a while, as it may be dead; never, if it is `unusable`."""
        with self._lock:
            slot = self._running[case.name][1]
            self._reserve(case, None)
            self._looked = float("-inf")
            if slot is None:
                return
            self._end(slot)
            if unusable:
                self._unusable[slot.node.id] = unusable
            else:
                self._avoided_until[slot.node.id] = monotonic() + AVOID_S

    def misfit(self, case: Case) -> str:
        """Why no node could run the case, however long it waits; empty if one could."""
        with self._lock:
            self._refresh()
            if self._candidates(case):
                return ""
            if not self._nodes:
                return "the pool has no nodes"
            count = len(self._nodes.keys() - self._unusable.keys())
            if not count:
                return f"no node of the pool can be used: {'; '.join(dict.fromkeys(self._unusable.values()))}"
            wanted = case.resources
            labels = ", ".join(f"{name}={value}" for name, value in wanted.labels.items())
            asked = [f"{wanted.gpus} GPUs"] if wanted.gpus else []
            asked += [f"labels {labels}"] if labels else []
            return f"needs a node with {' and '.join(asked) or 'CPUs'}; none of the {count} nodes has that"

    def _refresh(self) -> None:
        if monotonic() - self._looked >= REFRESH_S:
            self._nodes = {node.id: node for node in self._look()}
            self._looked = monotonic()
            self._no_room_for.clear()

    def _candidates(self, case: Case) -> list[Node]:
        """Nodes that have what the case must have. More CPUs or memory than any has means the whole of the largest."""
        labels = case.resources.labels.items()
        fitting = [
            node
            for node in self._nodes.values()
            if node.cpus > 0
            and node.id not in self._unusable
            and node.gpus >= case.resources.gpus
            and labels <= node.labels.items()
        ]
        cpus = min(case.resources.cpus, max((node.cpus for node in fitting), default=0))
        roomy = [node for node in fitting if node.cpus >= cpus]
        memory_bytes = min(case.resources.memory_bytes, max((node.memory_bytes for node in roomy), default=0))
        return [node for node in roomy if node.memory_bytes >= memory_bytes]

    def _choose(self, case: Case, besides: Collection[str]) -> Node | None:
        """The emptiest node with room, and for a case without GPUs rather one that has none."""
        now = monotonic()
        candidates = [node for node in self._candidates(case) if node.id not in besides]
        # Where all are avoided, one of them is better than none.
        open_nodes = [node for node in candidates if self._avoided_until.get(node.id, 0) <= now] or candidates
        free = []
        for node in open_nodes:
            wanted, others = reservation(case, node), self._reserved_on(node, besides=case)
            disturbed = bool(others) and any(one.exclusive for one in (wanted, *others))
            if not disturbed and fit([wanted, *others], node):
                wastes_gpus = case.resources.gpus == 0 and node.gpus > 0
                cpus_left = node.cpus - sum(one.cpus for one in others)
                free.append(((wastes_gpus, len(others), -cpus_left), node))
        return min(free, key=lambda pair: pair[0])[1] if free else None

    def _reserve(self, case: Case, node: Node | None) -> Slot | None:
        """Give a running case a slot, an idle one if there is one of its size; none without a node."""
        self._no_room_for.clear()  # for one that moved may have left room behind
        slot = None
        if node is not None:
            wanted = reservation(case, node)
            idle = [one for one in self._idle if one.node.id == node.id]
            slot = next((one for one in idle if one.reserved == wanted), None)
            others = [wanted, *self._reserved_on(node, besides=case)]
            while slot is None and idle and not fit([*others, *(one.reserved for one in idle)], node):
                self._idle.remove(idle[0])
                self._end(idle.pop(0))  # it has what the new one needs
            if slot is None:
                slot = Slot(node=node, reserved=wanted)
            else:
                self._idle.remove(slot)
        self._running[case.name] = (case, slot)
        return slot

    def _reserved_on(self, node: Node, besides: Case) -> list[Resources]:
        return [
            slot.reserved
            for case, slot in self._running.values()
            if slot is not None and slot.node.id == node.id and case.name != besides.name
        ]


def reservation(case: Case, node: Node) -> Resources:
    """What a case reserves of a node: never more than it has, and all its CPUs if it is to be alone there."""
    asked = case.resources
    return Resources(
        gpus=asked.gpus,
        exclusive=asked.exclusive,
        cpus=node.cpus if asked.exclusive else min(max(asked.cpus, SMALLEST_CPUS), node.cpus),
        memory_bytes=min(asked.memory_bytes, node.memory_bytes),
    )


def fit(wanted: Sequence[Resources], node: Node) -> bool:
    """Whether a node has all this at once."""
    return (
        sum(one.cpus for one in wanted) <= node.cpus + 1e-9
        and sum(one.memory_bytes for one in wanted) <= node.memory_bytes
        and sum(one.gpus for one in wanted) <= node.gpus
    )
