"""Records and sessions for tests of the history: by hand, and by hypothesis."""

import math
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID, uuid5

import numpy as np
from hypothesis import strategies as st

from paceline.history import Series, SessionInfo, Store
from paceline.history.series import Names, Records
from paceline.model import Case, Check, Measurement, Record, Scalar, Status

NAMESPACE = UUID(int=7)
ENVIRONMENT: Mapping[str, Any] = {
    "id": "env-1",
    "class_id": "class-1",
    "hostname": "box",
    "platform": "Linux-6.1-x86_64",
    "python": {"version": "3.11.7"},
    "packages": ["dask==2026.8.0", "distributed==2026.8.1", "Odd.Name==1", "-e file:///x  # mine==0.1"],
}


def session(number: int = 1, **fields: Any) -> SessionInfo:
    """The session of that number: a day later than the one before it."""
    started = f"2026-{1 + number // 28 % 12:02}-{1 + number % 28:02}T00:00:00.000Z"
    defaults = {"name": f"night-{number}", "started_at": started, "revision": f"{number:040x}"}
    return SessionInfo(id=uuid5(NAMESPACE, str(number)).hex, **{**defaults, **fields})


def series_of(store: Store, case: str, metric: str, **wanted: Any) -> list[Series]:
    """The series of one metric of a case, with their samples."""
    return list(store.iter_columns(cases=[case], metrics=[metric], samples=True, **wanted))


def made_series(values: Sequence[float]) -> Series:
    """A series of these values, one a night, that no history has."""
    count = len(values)
    names = Names({0: ("night", "", "s")}, {0: ("env-1", "class-1")}, {})
    records = Records(
        names,
        *([f"2026-{i:06}" for i in range(count)], range(count), [0] * count, [0] * count),
        *([i.to_bytes(16) for i in range(count)], ["passed"] * count),
        *([None] * count for _ in range(3)),
    )
    return Series(
        case_key="sort",
        version="1",
        variant=None,
        metric="wall_s",
        unit="s",
        direction="lower",
        environment_class="class-1",
        epoch=0,
        values=np.array(values, dtype=float),
        records=records,
    )


def case(key: str = "sort", **fields: Any) -> Case:
    return Case(**{"name": key, "entry": key.partition("[")[0], "key": key, **fields})


def measured(
    value: Scalar, *samples: Scalar, unit: str | None = "s", direction: Any = "lower"
) -> Measurement:
    return Measurement(value=value, unit=unit, direction=direction, samples=samples or (value,))


def record(key: str = "sort", value: Scalar = 1.0, *, number: int = 1, **fields: Any) -> Record:
    """A passed record with one metric, `wall_s`, unless told otherwise."""
    defaults: dict[str, Any] = {
        "session": f"night-{number}",
        "case": case(key),
        "attempt": 1,
        "status": Status.PASSED,
        "started_at": session(number).started_at,
        "exec_time_s": 0.5,
        "metrics": {"wall_s": measured(value)},
        "environment": "env-1",
        "revision": session(number).revision,
    }
    return Record(**{**defaults, **fields})


# "NaN" and its like are how non-finite numbers are written, so as text they do not come back.
_words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8).filter(
    lambda text: text not in ("NaN", "Infinity")
)
_names = st.sampled_from(["sort", "join[n=1]", "join[n=2]", "ünïcode", "read"])
_scalars: st.SearchStrategy[Scalar] = st.one_of(
    st.floats(allow_nan=False), st.integers(-(10**25), 10**25), _words, st.none()
)
_measurements = st.builds(
    Measurement,
    value=_scalars,
    unit=st.sampled_from([None, "s", "bytes"]),
    direction=st.sampled_from([None, "lower", "higher"]),
    samples=st.lists(_scalars, max_size=3).map(tuple),
)
_data = st.dictionaries(
    _words, st.one_of(_words, st.integers(-5, 5), st.lists(_words, max_size=2)), max_size=2
)
_checks = st.builds(
    Check,
    metric=_words,
    kind=st.just("min_value"),
    bound=st.integers(0, 9),
    actual=st.integers(0, 9),
    margin=st.floats(-1, 1),
    ok=st.booleans(),
)


@st.composite
def records(draw: st.DrawFn) -> Record:
    """A record of any content; those of equal name and attempt are the same record, told differently."""
    key = draw(_names)
    return Record(
        session="any",
        case=case(key, variant=draw(st.sampled_from([None, "a"])), params=draw(_data)),
        attempt=draw(st.integers(1, 3)),
        status=draw(st.sampled_from(Status)),
        reason=draw(_words),
        started_at=f"2026-01-0{draw(st.integers(1, 9))}T00:00:00.000Z",
        exec_time_s=draw(st.floats(0, 100)),
        timings_s=draw(st.dictionaries(st.sampled_from(["run", "start"]), st.floats(0, 9), max_size=2)),
        returncode=draw(st.sampled_from([None, 0, 1, -9])),
        command=tuple(draw(st.lists(_words, max_size=2))),
        metrics=draw(
            st.dictionaries(st.sampled_from(["wall_s", "peak", "score"]), _measurements, max_size=3)
        ),
        params=draw(_data),
        requirements=tuple(draw(st.lists(_checks, max_size=1))),
        environment=draw(st.sampled_from(["env-1", "env-2"])),
        revision=draw(st.sampled_from(["", "abc", "f" * 40])),
        warnings=tuple(draw(st.lists(_words, max_size=1))),
        details=draw(_data),
    )


def is_same(left: Scalar, right: Scalar) -> bool:
    """Whether two values are equal as the history keeps them: numbers as floats, every NaN the same."""
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return left == right
