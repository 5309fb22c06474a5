"""What an older version wrote, put back where it was written, and what that version answered about it.

Archives and answers are in `tests/compat/written_by_b4bdfd2`; `tests/compat/make_fixtures.py` says how each was made.
Cases are known by a fingerprint that has the absolute path of their suite in it, so each archive has a place of its own
under /tmp. A test has that place to itself.
"""

import csv
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
    is_log = answer["words"][:2] == ["history", "log"] and "lines" in answer
    done = place.run(*answer["words"], *(["--all"] if is_log else []), **variables)
    if answer["words"][0] == "compare":
        if "json" in answer:
            check_compared(answer["json"], json.loads(done.stdout))
        else:
            sides = [line.replace(": ", "  ", 1) for line in answer["lines"][:2]]
            assert done.stdout.splitlines()[1:3] == sides
        return
    if "--replay" in answer["words"]:
        check_replay(answer["json"], json.loads(done.stdout))
        return
    if answer["words"][:2] == ["evals", "compare"]:
        check_effects(answer["json"], json.loads(done.stdout))
        return
    assert done.returncode == answer["code"], done.stderr
    if answer["words"][0] == "show" and len(answer["words"]) == 2:
        check_shown(answer["lines"], done.stdout)
    elif answer["words"][0] == "regressions" and "json" in answer:
        assert difference(by_id(answer["json"]), by_id(json.loads(done.stdout))) == ""
    elif answer["words"][0] == "regressions":
        # A list to act on: what was new and worse is named, by its id or that of its incident.
        every = json.loads(place.run("regressions", "--json").stdout)
        urgent = [one for one in every if one["verdict"] == "worse" and one["state"] == "new"]
        assert all(one["id"] in done.stdout or one["incident"] in done.stdout for one in urgent)
    elif answer["words"][:2] == ["history", "export"]:
        old, new = (
            told if "json" in answer else list(csv.DictReader(told))
            for told in (
                answer.get("json") or answer["lines"],
                json.loads(done.stdout) if "json" in answer else done.stdout.splitlines(),
            )
        )
        check_exported(old, new)
    elif answer["words"][:2] == ["history", "query"]:
        assert difference(of_cases(answer["json"]), of_cases(json.loads(done.stdout))) == ""
    elif "json" in answer:
        assert difference(answer["json"], json.loads(done.stdout)) == ""
    elif answer["words"][0] == "show":
        old, new = said(answer["lines"]), said(done.stdout.splitlines())
        lost = {str(word) for line in old for word in line} - {str(word) for line in new for word in line}
        # The first line has the status now, and a metric's direction is said in words.
        assert lost <= {"status", "Metrics", "↑", "↓", *map(str, old[0])}, done.stdout
        assert {"higher", "lower"} & set(done.stdout.split())
    else:
        old, new = said(answer["lines"]), said(done.stdout.splitlines())
        # The curve stands above the points now.
        assert difference(sorted(map(str, old)), sorted(map(str, new))) == "", done.stdout


def check_shown(old: list[str], new: str) -> None:
    """The same cases ended the same way, and the same sum of it all."""
    ended = [re.match(r"(\S.*?) {2,}(passed|[a-z_]+)  ", line) for line in old[2:]]
    for case, status in (found.groups() for found in ended if found):
        (line,) = [one for one in new.splitlines() if one[3:].startswith(f"{case} ")]
        assert line[0] == ("✓" if status == "passed" else "✗")
        assert status == "passed" or status.replace("_", " ") in line
    assert (
        re.sub(r" in [\d.]+ m?s$", "", next(one for one in old if " of " in one and "passed" in one)) in new
    )


def check_exported(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> None:
    """The same rows; two columns are called as in the views now, and the epoch is there, too."""
    names = {"case": "case_key", **({"sample": "sample_count"} if "sample_count" in new[0] else {})}
    old = [{names.get(name, name): value for name, value in row.items()} for row in old]
    new = [{name: value for name, value in row.items() if name != "epoch"} for row in new]
    assert difference(*(sorted(rows, key=str) for rows in (_same_order(old), _same_order(new)))) == ""


def _same_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is not known was an empty text once."""
    return [{name: row[name] if row[name] != "" else None for name in sorted(row)} for row in rows]


def of_cases(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sums over the records of each case: those of a case that was renamed are among those of its new name now."""
    if not rows or "case_key" not in rows[0]:
        return rows
    sums: dict[str, dict[str, Any]] = {}
    for row in rows:
        row = {**row, "case_key": {"read_rows": "read"}.get(row["case_key"], row["case_key"])}
        known = sums.setdefault(
            str([row[name] or "" for name in ("case_key", "variant", "version", "metric", "unit", "status")]),
            row,
        )
        if known is not row:
            known.update({name: known[name] + row[name] for name in ("records", "samples")})
            for name, join in (("total", sum), ("least", min), ("most", max), ("text", min)):
                values = [one[name] for one in (known, row) if one[name] is not None]
                known[name] = join(values) if values else None
    return _same_order([sums[key] for key in sorted(sums)])


def by_id(findings: list[Any]) -> list[Any]:
    """Findings in an order that stays: the most urgent come first now, not the newest."""
    return sorted(findings, key=lambda one: str(one["id"]))


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
    for known, found in zip(old["pareto"], new["pareto"], strict=True):
        assert difference(known, {name: found[name] for name in known}) == ""
    assert difference(old["missing"], new["missing"]) == ""


def said(lines: list[str]) -> list[list[str | float]]:
    """The words and numbers of each line: the style in which numbers are written is not what has to stay."""
    told = []
    for line in lines:
        if line.startswith("± is "):  # explains a sign
            continue
        plain = (
            re.sub(r", machines [0-9a-f]{16}(?=\))| (?=%)|[<>] -?(?=0\.0+1)", "", line)
            .replace(" … ", " to ")
            .replace(" ±", " ")
        )
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

    A finding, a series and what an import says may have names that they did not have: who reads by name is safe.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        added = {*new} - {*old} if {"first_bad", "points", "problems"} & {*old} else set()
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
