"""What an older version wrote, put back where it was written, and what that version answered about it.

Archives and answers are in `tests/compat/written_by_b4bdfd2`; `tests/compat/make_fixtures.py` says how each was made.
Cases are known by a fingerprint that has the absolute path of their suite in it, so each archive has a place of its own
under /tmp. A test has that place to itself.
"""

import fcntl
import json
import math
import os
import re
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from patience import wait_until
from workplace import Workplace

WRITTEN = Path(__file__).parent / "compat/written_by_b4bdfd2"

Answer = Mapping[str, Any]

JUDGED = {
    **dict.fromkeys(("effect", "low", "high", "confidence", "suspects_confidence", "posterior"), 0.01),
    **dict.fromkeys(("p_value", "minimum_detectable"), 1.0),
}
"""What is worked out from the numbers each time, and by how much it may differ: judges are made better."""


@contextmanager
def frozen_place(name: str) -> Iterator[Workplace]:
    """The directory as it was left, at the path where it was made; gone when the test ends."""
    path = Path(f"/tmp/paceline-compat-{name}")
    with _alone(Path(f"{path}.lock")):
        wait_until(lambda: _is_gone(path), f"that {path} can be removed")
        path.mkdir()
        try:
            with tarfile.open(WRITTEN / f"{name}.tar.gz") as archive:
                # As an argument, not every Python 3.11 knows it.
                archive.extraction_filter = lambda member, _: member
                archive.extractall(path)
            yield Workplace(path)
        finally:
            wait_until(lambda: _is_gone(path), f"that {path} can be removed")


def _is_gone(path: Path) -> bool:
    """Remove a directory; what a process that is about to end still writes into it goes the next time."""
    shutil.rmtree(path, ignore_errors=True)
    return not path.exists()


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Wait for other tests that use the same place, in this run of the tests or another; the lock's file goes, too."""
    while True:
        fd = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        fcntl.flock(fd, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.fstat(fd).st_ino == lock.stat().st_ino:
                break
        os.close(fd)  # Who had it before us took the file away.
    try:
        yield
    finally:
        lock.unlink()
        os.close(fd)


def answers(name: str) -> list[Answer]:
    """The commands that were asked, each with its exit code and what it printed."""
    found: list[Answer] = json.loads((WRITTEN / f"{name}.json").read_text())
    return found


def called(answer: Answer) -> str:
    """The name of the test of an answer."""
    return " ".join(" ".join(answer["words"]).split())[:70]


def check(place: Workplace, answer: Answer, **variables: str) -> None:
    """Ask the same once more."""
    done = place.run(*answer["words"], **variables)
    if answer["words"][0] == "compare":
        if "json" in answer:
            check_compared(answer["json"], json.loads(done.stdout))
        else:
            assert done.stdout.splitlines()[:3] == answer["lines"][:3]
        return
    if "--replay" in answer["words"]:
        check_replay(answer["json"], json.loads(done.stdout))
        return
    if answer["words"][:2] == ["evals", "compare"]:
        check_effects(answer["json"], json.loads(done.stdout))
        return
    assert done.returncode == answer["code"], done.stderr
    if "json" in answer:
        assert difference(answer["json"], json.loads(done.stdout)) == ""
    else:
        old, new = said(answer["lines"]), said(done.stdout.splitlines())
        assert difference(old, new) == "", done.stdout


def check_compared(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """The same numbers are compared under the same names; what is worse is decided more carefully since then."""
    names = ("case", "metric", "variant", "unit", "direction", "samples")
    for known, found in ((old[part], new[part]) for part in ("comparisons", "missing")):
        if known:
            assert known[0].keys() <= found[0].keys()
        facts = [
            sorted(json.dumps([one.get(name) for name in (*names, "side")]) for one in part)
            for part in (known, found)
        ]
        assert facts[0] == facts[1]
    for name in ("baseline", "candidate", "unlike_machines"):
        assert old[name] == new[name]
    assert old.keys() <= new.keys()
    sure = {(one["case"], one["metric"]): one for one in old["comparisons"] if one["verdict"] == "worse"}
    for one in new["comparisons"]:
        known = sure.get((one["case"], one["metric"]))
        if known and abs(known["ratio"] - 1) > 0.2:
            assert one["verdict"] == "worse" and math.isclose(one["ratio"], known["ratio"], rel_tol=0.02)


def check_replay(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """The same alarms about the same findings; on which night they are raised is up to the detector."""
    assert old.keys() == new.keys()
    late = ("raised_at", "delay", "median_delay", "effect")
    for known, found in ((old, new), *zip(old["alarms"], new["alarms"], strict=True)):
        kept = {name: value for name, value in known.items() if name not in (*late, "alarms")}
        assert difference(kept, {name: found[name] for name in kept}) == ""


def check_effects(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """The same effects under the same names; how sure they are is told more carefully since then."""
    doubtful = ("low", "high", "verdict")
    for known, found in zip(old["comparisons"], new["comparisons"], strict=True):
        kept = {name: value for name, value in known.items() if name not in doubtful}
        assert difference(kept, {name: found[name] for name in kept}) == "" and known.keys() <= found.keys()
    assert difference([old["pareto"], old["missing"]], [new["pareto"], new["missing"]]) == ""


def said(lines: list[str]) -> list[list[str | float]]:
    """The words and numbers of each line: the style in which numbers are written is not what has to stay."""
    told = []
    for line in lines:
        if line.startswith("± is "):  # explains a sign
            continue
        plain = re.sub(r" (?=%)|[<>] -?(?=0\.0+1)", "", line).replace(" … ", " to ").replace(" ±", " ")
        told.append([_word(word) for word in plain.split()])
    return told


def _word(text: str) -> str | float:
    """A number to three digits, a share to a tenth of a percent, a p of almost nothing as 0; or a word."""
    found = re.fullmatch(r"[(×]?([+-]?[\d,]*\.?\d+(?:e[+-]?\d+)?)(%?)[),]*", text)
    if found is None:
        return text
    value = float(found[1].replace(",", ""))
    if found[2]:
        return float(f"{value:.1e}") if abs(value) >= 100 else round(value, 1) + 0.0
    return 0.0 if abs(value) < 0.002 else float(f"{value:.{0 if abs(value) >= 1e6 else 2}e}")


def difference(old: Any, new: Any, where: str = "") -> str:
    """Where two answers first differ, and how; numbers may differ by what another processor rounds differently.

    A finding may have names that it did not have: nobody who reads it by name notices.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        added = {*new} - {*old} if "first_bad" in old else set()
        if old.keys() != new.keys() - added:
            return f"{where or 'at the top'}: had {sorted(old)}, has {sorted(new)}"
        return next(filter(None, (difference(old[key], new[key], f"{where}.{key}") for key in old)), "")
    if isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            return f"{where}: had {len(old)} items, has {len(new)}"
        pairs = enumerate(zip(old, new, strict=True))
        return next(filter(None, (difference(*pair, f"{where}[{number}]") for number, pair in pairs)), "")
    if isinstance(old, float) and isinstance(new, float):
        name = re.sub(r"\[\d+\]", "", where).rsplit(".", 1)[-1]
        if math.isclose(old, new, rel_tol=1e-6, abs_tol=JUDGED.get(name, 0.0)):
            return ""
    return "" if type(old) is type(new) and old == new else f"{where}: was {old!r}, is {new!r}"


def contents(directory: Path, pattern: str = "**/*") -> dict[str, tuple[bytes, int]]:
    """The files below a directory, each with its content and the time of its last change."""
    return {
        str(path.relative_to(directory)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(directory.glob(pattern))
        if path.is_file() and not path.is_symlink()
    }
