"""One manifest with everything that can be wrong with one: all of it counted, and never a wrong window."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from paceline.curate import LocalExecutor, Pipeline, Result
from paceline.curate.alm import ALMDataBuilderStage, ALMDataOverlapStage, ALMManifestReader
from paceline.curate.pipeline import RejectLog

HUNDRED_MB = 100_000_000


def talk(name: str, **more: Any) -> dict[str, Any]:
    segments = [
        {"start": 5.0 * at, "end": 5.0 * at + 4.5, "speaker": f"s{at % 3}", "metrics": {"bandwidth": 9000}}
        for at in range(50)
    ]
    return {"audio_filepath": name, "audio_sample_rate": 16000, "segments": segments, **more}


def without(field: str) -> dict[str, Any]:
    entry = talk("without")
    del entry[field]
    return entry


def changed(at: int, **fields: Any) -> dict[str, Any]:
    entry = talk("changed")
    entry["segments"][at] |= fields
    return entry


# What is wrong, and what is said of it; the hundred megabytes are written apart.
BAD: list[tuple[bytes, str]] = [
    (b'{"audio_filepath": "a", "segments": [', "not JSON"),
    (b"half a line", "not JSON"),
    (b"[1, 2, 3]", "the line is not a JSON object"),
    (b'{"audio_filepath": "caf\xe9"}', "not UTF-8: byte 24 of the line"),
    *((json.dumps(without(name)).encode(), f"{name} is missing") for name in ("audio_filepath", "segments")),
    (json.dumps(without("audio_sample_rate")).encode(), "audio_sample_rate is missing"),
    (json.dumps(changed(7, start=None)).encode(), "segments[7].start is not a number"),
    (json.dumps(changed(7, end=float("nan"))).encode(), "not JSON"),
    (json.dumps(changed(7, end=float("inf"))).encode(), "not JSON"),
    (json.dumps(changed(7, end=10**400)).encode(), "segments[7].end is not a finite number"),
    (json.dumps(changed(7, start=10**25, end=10**400)).encode(), "segments[7].end is not a finite number"),
    (b'{"audio_filepath": "a", "n": ' + b"9" * 10_000 + b"}", "not JSON: Exceeds the limit"),
]


def run(path: Path, workers: int) -> Result:
    stages = [
        ALMManifestReader(str(path)),
        ALMDataBuilderStage(target_window_duration=30.0),
        ALMDataOverlapStage(overlap_percentage=50, target_duration=30.0),
    ]
    return Pipeline("malformed", stages).run(LocalExecutor(workers=workers))


def write_long_line(file: Any) -> None:
    file.write(b'{"audio_filepath": "long", "note": "')
    for _ in range(HUNDRED_MB // 1_000_000):
        file.write(b"x" * 1_000_000)
    file.write(b'"}\n')


@pytest.mark.parametrize(("tail", "workers"), [("", 1), ("", 2), (".gz", 1)])
def test_all_that_is_wrong_is_counted_and_the_rest_is_as_if_alone(
    tmp_path: Path, tail: str, workers: int
) -> None:
    backwards = talk("backwards")
    backwards["segments"].reverse()
    good = [talk("first"), backwards, talk("large", n=2**70, big=10**300), talk("last")]
    (tmp_path / "good.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in good))
    path = tmp_path / f"m.jsonl{tail}"
    with gzip.open(path, "wb", 1) if tail else path.open("wb") as file:
        for place, entry in enumerate(good[:3]):
            file.write(json.dumps(entry).encode() + b"\n")
            file.writelines(line + b"\n" for line, _ in BAD[place::3])
        write_long_line(file)
        file.write(json.dumps(good[3]).encode() + b"\n")

    result, alone = run(path, workers), run(tmp_path / "good.jsonl", 1)

    assert [task.data for task in result] == [task.data for task in alone]
    assert len(result[0].data["windows"]) > 10 and result[2].data["n"] == 2**70
    log = RejectLog()
    log.add(result.rejects)
    log.write(tmp_path / "rejects.jsonl")
    rejects = [json.loads(line) for line in (tmp_path / "rejects.jsonl").read_text().splitlines()]
    expected = [reason for place in range(3) for _, reason in BAD[place::3]]
    expected.append("the line is longer than 67108864 bytes")
    assert log.total == len(expected)
    for reject, reason in zip(sorted(rejects, key=lambda one: one["line"]), expected, strict=True):
        assert reject["reason"].startswith(reason)
    assert result.metrics()["task_jsonl_reader_custom.entries_sum"] == len(good) + len(expected)


def test_segments_in_any_order_are_taken_as_they_come(tmp_path: Path) -> None:
    entry = talk("mixed")
    entry["segments"] = entry["segments"][::2] + entry["segments"][1::2]
    (tmp_path / "m.jsonl").write_text(json.dumps(entry) + "\n")
    (task,) = run(tmp_path / "m.jsonl", 1)
    stats = task.data["stats"]
    lost = stats["lost_bw"] + stats["lost_win"] + stats["lost_spk"]
    assert len(task.data["windows"]) + lost == stats["total_segments"] == 50
