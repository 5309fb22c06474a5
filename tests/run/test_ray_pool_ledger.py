"""Placement on nodes, held against random plans and pools: labels, room, whole nodes, lost places first."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from paceline.model import Case, Resources
from paceline.run.ray.placement import Node, PoolLedger, read_nodes


def node(number: int, **has: object) -> Node:
    return Node(id=f"n{number}", name=f"n{number}", **{"cpus": 2, "memory_bytes": 100, **has})  # type: ignore[arg-type]


def case(name: str, **wanted: object) -> Case:
    return Case(name=name, entry=name, key=name, resources=Resources(**wanted))  # type: ignore[arg-type]


pools = st.lists(
    st.builds(
        Node,
        id=st.uuids().map(str),
        name=st.just("n"),
        cpus=st.sampled_from([1.0, 2.0, 4.0]),
        gpus=st.integers(0, 2),
        memory_bytes=st.sampled_from([0, 50, 100]),
        labels=st.dictionaries(st.just("zone"), st.sampled_from("ab"), max_size=1),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda one: one.id,
)
sizes = st.builds(
    Resources,
    cpus=st.sampled_from([0, 0.5, 1, 2, 64]),
    gpus=st.integers(0, 3),
    memory_bytes=st.sampled_from([0, 40, 60, 1000]),
    exclusive=st.booleans(),
    labels=st.dictionaries(st.just("zone"), st.sampled_from("ab"), max_size=1),
)


@given(pools, st.lists(sizes, max_size=20), st.randoms())
def test_no_node_is_ever_overdrawn(nodes: list[Node], wanted: list[Resources], random: object) -> None:
    ledger = PoolLedger(lambda: nodes, slots=8)
    running: dict[str, tuple[Case, Node]] = {}
    for number, size in enumerate(wanted):
        one = replace(case(f"c{number}"), resources=size)
        grant = ledger.take(one)
        place = ledger.place(one) if grant else None
        if grant and place is None:
            assert ledger.misfit(one), "a case that fits somewhere was sent off without a place"
            ledger.give_back(one)
        elif place is not None:
            running[one.name] = (one, place)
            check(ledger, running, place)
        if running and random.random() < 0.4:  # type: ignore[attr-defined]
            ended, _ = running.pop(random.choice(sorted(running)))  # type: ignore[attr-defined]
            ledger.give_back(ended)
    for one, _ in running.values():
        ledger.give_back(one)
    assert ledger.idle


def check(ledger: PoolLedger, running: dict[str, tuple[Case, Node]], place: Node) -> None:
    here = [one for one, where in running.values() if where.id == place.id]
    held = [ledger.wanted(one, place) for one in here]
    assert len(here) == 1 or not any(one.resources.exclusive for one in here)
    assert sum(one.cpus for one in held) <= place.cpus + 1e-9
    assert sum(one.gpus for one in held) <= place.gpus
    assert sum(one.memory_bytes for one in held) <= place.memory_bytes
    assert all(one.resources.labels.items() <= place.labels.items() for one in here)


def test_the_emptiest_node_is_taken_and_gpus_are_spared() -> None:
    ledger = PoolLedger(lambda: [node(0, gpus=1), node(1), node(2)], slots=9)
    grants = [ledger.take(case(f"c{number}", cpus=1)) for number in range(4)]
    assert sorted(grant.node for grant in grants if grant) == ["n1", "n1", "n2", "n2"]
    last = ledger.take(case("last", cpus=1))
    assert last is not None and last.node == "n0"


def test_more_than_any_node_has_is_the_whole_of_the_largest() -> None:
    ledger = PoolLedger(lambda: [node(0), node(1, cpus=4)], slots=9)
    huge = case("huge", cpus=64, memory_bytes=10**12)
    grant = ledger.take(huge)
    assert grant is not None and grant.node == "n1"
    assert ledger.wanted(huge, node(1, cpus=4)) == Resources(cpus=4, memory_bytes=100)


def test_what_no_node_has_is_named() -> None:
    ledger = PoolLedger(lambda: [node(0, gpus=1, labels={"zone": "a"})])
    assert ledger.misfit(case("ok", gpus=1, labels={"zone": "a"})) == ""
    wanted = case("c", gpus=2, labels={"zone": "b"})
    assert ledger.misfit(wanted) == (
        "needs a node with 2 GPUs and labels zone=b; none of the 1 nodes has that"
    )
    ledger.exclude("n0", "n0 has not the Python package orjson")
    assert "n0 has not the Python package orjson" in ledger.misfit(case("any"))
    assert PoolLedger(list).misfit(case("any")) == "the pool has no nodes"


def test_a_case_that_lost_its_node_goes_before_new_ones() -> None:
    nodes = [node(0, cpus=1), node(1, cpus=1)]
    ledger = PoolLedger(lambda: nodes, slots=9)
    first, second, third = case("first"), case("second"), case("third")
    assert ledger.take(first) and ledger.take(second)
    lost = ledger.place(first)
    assert lost is not None
    nodes.remove(lost)
    ledger.shun(lost.id)
    assert ledger.settle(first) is None, "the other node is full"
    ledger.give_back(second)
    assert ledger.take(third) is None, "a new case took the place of one that waits"
    settled = ledger.settle(first)
    assert settled is not None and settled.id != lost.id


def test_a_shunned_node_is_used_only_if_there_is_no_other() -> None:
    ledger = PoolLedger(lambda: [node(0), node(1)], slots=9)
    ledger.shun("n0")
    grants = [ledger.take(case(f"c{number}", cpus=1)) for number in range(2)]
    assert [grant.node for grant in grants if grant] == ["n1", "n1"]
    alone = PoolLedger(lambda: [node(0)], slots=9)
    alone.shun("n0")
    grant = alone.take(case("c"))
    assert grant is not None and grant.node == "n0"


def test_a_case_moves_only_to_another_node_with_room() -> None:
    ledger = PoolLedger(lambda: [node(0), node(1)], slots=9)
    one, other = case("one", cpus=2), case("other", cpus=2)
    assert ledger.take(one) and ledger.take(other)
    place = ledger.place(one)
    assert place is not None
    assert ledger.move(one) is None and ledger.place(one) == place
    ledger.give_back(other)
    moved = ledger.move(one)
    assert moved is not None and moved.id != place.id


def test_only_living_nodes_are_read() -> None:
    rows = [
        {"Alive": False, "NodeID": "0" * 56, "Resources": {"CPU": 4.0}},
        {
            "Alive": True,
            "NodeID": "ab" * 28,
            "NodeManagerHostname": "host",
            "Resources": {"CPU": 4.0, "GPU": 1.0, "memory": 7.0, "node:10.0.0.1": 1.0},
            "Labels": {"zone": "a"},
        },
    ]
    (found,) = read_nodes(rows)
    assert found == Node(
        id="ab" * 28, name="host/abababab", cpus=4, gpus=1, memory_bytes=7, labels={"zone": "a"}
    )
