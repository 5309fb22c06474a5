"""Whatever a history holds, its site is built, and the command line says the same of it."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dashboard_site import build_site, data
from paceline.dashboard.encoding import file_id
from paceline.findings.detection import detect
from paceline.findings.order import read_order
from paceline.history import SessionInfo, Store, open_store
from paceline.model import Status
from stored_records import case, measured, record, session

MACHINES = [
    {"id": f"env-{n}", "class_id": f"{n:016x}", "hostname": host, "python": {"version": python}}
    for n, (host, python) in enumerate([("box", "3.11.2"), ("box", "3.13.0"), ("", "")])
]


@dataclass(frozen=True)
class Night:
    """A session, with how its cases ended; several may run at once, and be recorded in another order."""

    day: int
    lasts: int
    machine: int
    revision: int | None
    kind: str
    branch: str
    statuses: tuple[str, ...]


_nights = st.builds(
    Night,
    day=st.integers(0, 90),
    lasts=st.integers(0, 3),
    machine=st.integers(0, 2),
    revision=st.none() | st.integers(0, 30),
    kind=st.sampled_from(["session", "session", "session", "ab", "import"]),
    branch=st.sampled_from(["main", "main", "topic", ""]),
    statuses=st.tuples(*[st.sampled_from(["passed", "passed", "passed", "failed", "skipped", "none"])] * 3),
)
_histories = st.tuples(
    st.lists(_nights, min_size=0, max_size=24),
    st.booleans(),  # renamed
    st.booleans(),  # reset
    st.sampled_from([0, 0, 12, 30]),  # further nights with a step, so that there is something to find
    st.integers(0, 2**16),
)
CASES = ("sort", "join[n=1]", "join[n=2]")


def day(number: float) -> str:
    return f"2026-{1 + int(number) // 28 % 12:02}-{1 + int(number) % 28:02}T{int(number * 24) % 24:02}:00:00.000Z"


def add(store: Store, number: int, night: Night, values: Sequence[float]) -> None:
    revision = "" if night.revision is None else f"{night.revision:040x}"
    machine: dict[str, Any] = MACHINES[night.machine]
    told = {"kind": night.kind, "branch": night.branch, "revision": revision, "started_at": day(night.day)}
    told["commit_time"] = "" if night.revision is None or night.revision % 3 else day(night.revision)
    info = SessionInfo(id=session(number).id, name=f"night-{number}", **told)
    arm = "arm" if night.kind == "ab" else None
    records = [
        record(
            key,
            number=number,
            case=case(key, variant=arm),
            status=Status(status),
            reason=f"exit code {number}" if status == "failed" else "",
            started_at=day(night.day + night.lasts * place / 3),
            metrics={} if status != "passed" else {"wall_s": measured(value)},
            environment=machine["id"],
            revision=revision,
        )
        for place, (key, status, value) in enumerate(zip(CASES, night.statuses, values, strict=True))
        if status != "none"
    ]
    store.add(info, machine, records)


def fill(store: Store, nights: Sequence[Night], renamed: bool, reset: bool, more: int, seed: int) -> None:
    chance = random.Random(seed)
    steps = [
        Night(40 + at, 0, 0, None, "session", "main", ("passed", "passed", "failed" if at > 20 else "passed"))
        for at in range(more)
    ]
    for number, night in enumerate([*nights, *steps]):
        level = 1.3 if night in steps and steps.index(night) > more // 2 else 1.0
        add(store, number, night, [level * chance.lognormvariate(0, 0.01) for _ in CASES])
    if renamed:
        store.alias("sort", "sorted")
    if reset:
        store.reset("join", "new data", day(20))
    detect(store)


@given(_histories)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_history_has_its_site(history: tuple[list[Night], bool, bool, int, int]) -> None:
    with TemporaryDirectory() as directory:
        path, out = Path(directory) / "history.db", Path(directory) / "site"
        with open_store(path) as store:
            fill(store, *history)
            cases = store.cases()
        build_site(path, out)
        overview = data(out, "overview")
        check_lists(overview)
        assert sorted(data(out, "search")["case"]) == cases
        for key in cases:
            assert len(data(out, f"case/{file_id(key)}")["names"]) >= 1
        for one in overview["incidents"]:
            page = data(out, f"incident/{file_id(one['id'])}")
            assert len({(each["case"], each["metric"]) for each in page["findings"]}) >= 1
        written = {path.name: path.read_bytes() for path in out.rglob("*.js")}
        build_site(path, out)
        again = {path.name: path.read_bytes() for path in out.rglob("*.js")}
        assert {name for name in written if written[name] != again[name]} <= {"overview.js"}
        with open_store(path) as store:
            ranked = read_order(store).ranks(store)
        assert not ranked or sorted(ranked.values()) == list(range(len(ranked)))


def check_lists(overview: dict[str, Any]) -> None:
    """What the first page says agrees with itself."""
    totals, incidents = overview["totals"], overview["incidents"]
    assert totals["incidents"] == len(incidents)
    assert totals["open"] == sum(1 for one in incidents if one["kind"] == "worse")
    broken = [one for group in overview["broken"] for one in group["cases"]]
    assert totals["broken"] == len({one["case"] for one in broken})
    for one in broken:
        good = one["strip"][: len(one["strip"]) - one["runs"]]
        assert one["runs"] >= 1 and not set(one["strip"][-one["runs"] :]) & set("ps")
        assert not good or good[-1] in "ps"
    for one in incidents:
        if one.get("at") and one["change"] == "step" and abs(one["effect"]) > 0.1:
            before, after = one["values"][: one["at"]], one["values"][one["at"] :]
            assert (sum(after) / len(after) > sum(before) / len(before)) == (one["effect"] > 0)
