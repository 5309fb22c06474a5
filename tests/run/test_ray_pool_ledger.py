"""Placement on nodes, held against random plans and pools: labels, room, whole nodes, lost places first."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from paceline.model import Case, Resources
from paceline.run.ray.placement import Node, PoolLedger, Slot, read_nodes, reservation


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
    ledger = PoolLedger(lambda: nodes, jobs=8)
    running: dict[str, tuple[Case, Node]] = {}
    for number, size in enumerate(wanted):
        one = replace(case(f"c{number}"), resources=size)
        grant = ledger.take(one)
        place = ledger.place(one) if grant and node_of(ledger, one) else None
        if grant and place is None:
            assert ledger.misfit(one), "a case that fits somewhere was sent off without a place"
            ledger.give_back(one)
        elif place is not None:
            running[one.name] = (one, place.node)
            check(running, place.node)
        if running and random.random() < 0.4:  # type: ignore[attr-defined]
            ended, _ = running.pop(random.choice(sorted(running)))  # type: ignore[attr-defined]
            ledger.give_back(ended)
    for one, _ in running.values():
        ledger.give_back(one)
    assert ledger.idle


def node_of(ledger: PoolLedger, one: Case) -> str:
    """The node that a running case was given; `place` would look for one."""
    _, slot = ledger._running[one.name]
    return slot.node.id if slot else ""


def check(running: dict[str, tuple[Case, Node]], place: Node) -> None:
    here = [one for one, where in running.values() if where.id == place.id]
    reserved = [reservation(one, place) for one in here]
    assert len(here) == 1 or not any(one.resources.exclusive for one in here)
    assert sum(one.cpus for one in reserved) <= place.cpus + 1e-9
    assert sum(one.gpus for one in reserved) <= place.gpus
    assert sum(one.memory_bytes for one in reserved) <= place.memory_bytes
    assert all(one.resources.labels.items() <= place.labels.items() for one in here)


def test_the_emptiest_node_is_taken_and_gpus_are_spared() -> None:
    ledger = PoolLedger(lambda: [node(0, gpus=1), node(1), node(2)], jobs=9)
    cases = [case(f"c{number}", cpus=1) for number in range(4)]
    assert all(ledger.take(one) for one in cases)
    assert sorted(node_of(ledger, one) for one in cases) == ["n1", "n1", "n2", "n2"]
    last = case("last", cpus=1)
    assert ledger.take(last) and node_of(ledger, last) == "n0"


def test_more_than_any_node_has_is_the_whole_of_the_largest() -> None:
    ledger = PoolLedger(lambda: [node(0), node(1, cpus=4)], jobs=9)
    huge = case("huge", cpus=64, memory_bytes=10**12)
    assert ledger.take(huge) and node_of(ledger, huge) == "n1"
    assert reservation(huge, node(1, cpus=4)) == Resources(cpus=4, memory_bytes=100)


def test_what_no_node_has_is_named() -> None:
    ledger = PoolLedger(lambda: [node(0, gpus=1, labels={"zone": "a"})])
    assert ledger.misfit(case("ok", gpus=1, labels={"zone": "a"})) == ""
    wanted = case("c", gpus=2, labels={"zone": "b"})
    assert ledger.misfit(wanted) == (
        "needs a node with 2 GPUs and labels zone=b; none of the 1 nodes has that"
    )
    one = case("one")
    assert ledger.take(one)
    ledger.leave(one, unusable="n0 has not the Python package orjson")
    assert "n0 has not the Python package orjson" in ledger.misfit(case("any"))
    assert PoolLedger(list).misfit(case("any")) == "the pool has no nodes"


def test_a_case_that_lost_its_node_goes_before_new_ones() -> None:
    nodes = [node(0, cpus=1), node(1, cpus=1)]
    ledger = PoolLedger(lambda: nodes, jobs=9)
    first, second, third = case("first"), case("second"), case("third")
    assert ledger.take(first) and ledger.take(second)
    lost = ledger.place(first)
    assert lost is not None
    nodes.remove(lost.node)
    ledger.leave(first)
    assert ledger.place(first) is None, "the other node is full"
    ledger.give_back(second)
    assert ledger.take(third) is None, "a new case took the place of one that waits"
    settled = ledger.place(first)
    assert settled is not None and settled.node.id != lost.node.id


def test_a_node_that_lost_a_case_is_used_only_if_there_is_no_other() -> None:
    lost = case("lost")
    ledger = PoolLedger(lambda: [node(0), node(1)], jobs=9)
    assert ledger.take(lost) and node_of(ledger, lost) == "n0"
    ledger.leave(lost)
    ledger.give_back(lost)
    cases = [case(f"c{number}", cpus=1) for number in range(2)]
    assert all(ledger.take(one) for one in cases)
    assert [node_of(ledger, one) for one in cases] == ["n1", "n1"]
    alone = PoolLedger(lambda: [node(0)], jobs=9)
    assert alone.take(lost)
    alone.leave(lost)
    slot = alone.place(lost)
    assert slot is not None and slot.node.id == "n0"


def test_a_case_moves_only_to_another_node_with_room() -> None:
    ledger = PoolLedger(lambda: [node(0), node(1)], jobs=9)
    one, other = case("one", cpus=2), case("other", cpus=2)
    assert ledger.take(one) and ledger.take(other)
    place = ledger.place(one)
    assert place is not None
    assert ledger.place(one, elsewhere=True) is None and ledger.place(one) is place
    ledger.give_back(other)
    moved = ledger.place(one, elsewhere=True)
    assert moved is not None and moved.node.id != place.node.id and ledger.place(one) is moved


def test_a_slot_is_kept_for_the_next_case_of_its_size_and_ended_when_in_the_way() -> None:
    ended: list[Slot] = []
    ledger = PoolLedger(lambda: [node(0)], jobs=9, end=ended.append)
    first, second, third = case("first", cpus=1), case("second", cpus=1), case("third", cpus=2)
    assert ledger.take(first)
    slot = ledger.place(first)
    assert slot is not None
    slot.environment_id = "known"  # now it is ready
    ledger.give_back(first)
    assert ledger.take(second) and ledger.place(second) is slot and ended == []
    ledger.give_back(second)
    assert ledger.take(third) and ledger.place(third) is not slot and ended == [slot]
    unready = ledger.place(third)
    ledger.give_back(third)
    assert ended == [slot, unready] and ledger.slots == []


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
