"""Which node of a pool a case gets: by its resources and labels, a whole node for an exclusive one."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from paceline.model import Case, Resources
from paceline.run.scheduler import Grant

REFRESH_S = 2.0
"""How old the list of nodes may be: it is how soon a node that joins gets work."""
SHUN_S = 30.0
"""How long a node that lost a case or let one wait gets none: Ray needs some 15 s to notice that a node is dead."""
SMALLEST_CPUS = 0.001
"""What a case that asks for no CPU holds, so that one that asks for all of a node's never runs beside it."""


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
    return [_read_node(row) for row in rows if row.get("Alive")]


def _read_node(row: dict[str, Any]) -> Node:
    resources = row.get("Resources", {})
    host = row.get("NodeManagerHostname") or row.get("NodeManagerAddress", "")
    return Node(
        id=row["NodeID"],
        name=f"{host}/{row['NodeID'][:8]}",
        cpus=float(resources.get("CPU", 0)),
        gpus=int(resources.get("GPU", 0)),
        memory_bytes=int(resources.get("memory", 0)),
        labels=dict(row.get("Labels") or {}),
    )


class PoolLedger:
    """Keeps account of what running cases hold of each node; the scheduler and running cases ask it."""

    refresh_s: float | None = REFRESH_S

    def __init__(self, look: Callable[[], list[Node]], slots: int = 1) -> None:
        self._look = look
        self.slots = slots
        self._lock = threading.Lock()
        self._nodes: dict[str, Node] = {}
        self._looked = float("-inf")
        self._held: dict[str, tuple[Case, Resources, str]] = {}
        self._shunned: dict[str, float] = {}
        self._unusable: dict[str, str] = {}
        self._no_room_for: set[object] = set()

    @property
    def idle(self) -> bool:
        return not self._held

    @property
    def running(self) -> int:
        return len(self._held)

    @property
    def has_free_slot(self) -> bool:
        return len(self._held) < self.slots

    def take(self, case: Case) -> Grant | None:
        """A place on a node, or None while there is no room. One that no node could have starts without a place."""
        with self._lock:
            self._refresh()
            # The scheduler asks for every waiting case, and most are alike.
            size = _size(case)
            if not self.has_free_slot or size in self._no_room_for:
                return None
            node = self._choose(case, besides=self._spoken_for())
            if node is None and self._held and self._misfit(case) == "":
                self._no_room_for.add(size)
                return None
            return self._grant(case, node)

    def give_back(self, case: Case) -> None:
        with self._lock:
            del self._held[case.name]
            self._no_room_for.clear()

    def settle(self, case: Case) -> Node | None:
        """A place for a case that has none or lost it, which the case then holds; None while there is no room."""
        with self._lock:
            self._refresh()
            self._held[case.name] = (case, case.resources, "")
            node = self._choose(case)
            self._grant(case, node)
            return node

    def move(self, case: Case) -> Node | None:
        """A place on another node for a case that waits on its own; None, and nothing changes, if there is none."""
        with self._lock:
            self._refresh()
            here = self._held[case.name][2]
            node = self._choose(case, besides=frozenset({here}))
            if node is not None:
                self._grant(case, node)
            return node

    def place(self, case: Case) -> Node | None:
        """The node that a case holds a part of."""
        with self._lock:
            return self._nodes.get(self._held[case.name][2])

    def wanted(self, case: Case, node: Node) -> Resources:
        """What a case holds of a node: never more than it has, and all its CPUs if it is to be alone there."""
        asked = case.resources
        return Resources(
            gpus=asked.gpus,
            exclusive=asked.exclusive,
            cpus=node.cpus if asked.exclusive else min(max(asked.cpus, SMALLEST_CPUS), node.cpus),
            memory_bytes=min(asked.memory_bytes, node.memory_bytes),
        )

    def misfit(self, case: Case) -> str:
        """Why no node could run the case, however long it waits; empty if one could."""
        with self._lock:
            self._refresh()
            return self._misfit(case)

    def shun(self, node_id: str) -> None:
        """Give a node no case for a while: it died, or is full of somebody else's work."""
        with self._lock:
            self._shunned[node_id] = monotonic() + SHUN_S
            self._looked = float("-inf")

    def exclude(self, node_id: str, why: str) -> None:
        """Never use a node."""
        with self._lock:
            self._unusable[node_id] = why

    def _refresh(self) -> None:
        if monotonic() - self._looked >= REFRESH_S:
            self._nodes = {node.id: node for node in self._look()}
            self._looked = monotonic()
            self._no_room_for.clear()

    def _grant(self, case: Case, node: Node | None) -> Grant:
        """Without a node, what the case waits for is held of none."""
        self._no_room_for.clear()  # for one that moved may have left room behind
        wanted = case.resources if node is None else self.wanted(case, node)
        self._held[case.name] = (case, wanted, node.id if node else "")
        return Grant(slot=0, node=node.id if node else "")

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
        if not fitting:
            return []
        cpus = min(case.resources.cpus, max(node.cpus for node in fitting))
        roomy = [node for node in fitting if node.cpus >= cpus]
        memory_bytes = min(case.resources.memory_bytes, max(node.memory_bytes for node in roomy))
        return [node for node in roomy if node.memory_bytes >= memory_bytes]

    def _misfit(self, case: Case) -> str:
        if self._candidates(case):
            return ""
        if not self._nodes:
            return "the pool has no nodes"
        usable = [node for node in self._nodes.values() if node.id not in self._unusable]
        if not usable:
            return f"no node of the pool can be used: {'; '.join(dict.fromkeys(self._unusable.values()))}"
        wanted = case.resources
        labels = ", ".join(f"{name}={value}" for name, value in wanted.labels.items())
        asked = [f"{wanted.gpus} GPUs"] if wanted.gpus else []
        asked += [f"labels {labels}"] if labels else []
        return f"needs a node with {' and '.join(asked) or 'CPUs'}; none of the {len(usable)} nodes has that"

    def _spoken_for(self) -> frozenset[str]:
        """Nodes that cases without a place could have: they go first, or new ones would keep them waiting for ever."""
        waiting = [case for case, _, where in self._held.values() if not where]
        return frozenset(node.id for case in waiting for node in self._candidates(case))

    def _choose(self, case: Case, besides: frozenset[str] = frozenset()) -> Node | None:
        """The emptiest node with room, and for a case without GPUs rather one that has none."""
        now = monotonic()
        candidates = [node for node in self._candidates(case) if node.id not in besides]
        # Where all are shunned, one of them is better than none.
        open_nodes = [node for node in candidates if self._shunned.get(node.id, 0) <= now] or candidates
        free = [(node, held) for node in open_nodes if self._fits(case, node, held := self._on(node))]
        if not free:
            return None
        spares_gpus = case.resources.gpus == 0
        return min(
            free,
            key=lambda pair: (
                spares_gpus and pair[0].gpus > 0,
                len(pair[1]),
                sum(one.cpus for one in pair[1]) - pair[0].cpus,
            ),
        )[0]

    def _on(self, node: Node) -> list[Resources]:
        return [resources for _, resources, where in self._held.values() if where == node.id]

    def _fits(self, case: Case, node: Node, held: Sequence[Resources]) -> bool:
        wanted = self.wanted(case, node)
        if held and (wanted.exclusive or any(one.exclusive for one in held)):
            return False
        return fit([wanted, *held], node)


def fit(wanted: Sequence[Resources], node: Node) -> bool:
    """Whether a node has all this at once."""
    return (
        sum(one.cpus for one in wanted) <= node.cpus + 1e-9
        and sum(one.memory_bytes for one in wanted) <= node.memory_bytes
        and sum(one.gpus for one in wanted) <= node.gpus
    )


def _size(case: Case) -> object:
    """What decides where a case fits."""
    wanted = case.resources
    return (
        wanted.cpus,
        wanted.gpus,
        wanted.memory_bytes,
        wanted.exclusive,
        tuple(sorted(wanted.labels.items())),
    )
