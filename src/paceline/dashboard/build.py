"""Writes the site, and of one that is there only what has changed since."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from paceline import __version__
from paceline.dashboard.badges_and_feed import badge_files, feed_file
from paceline.dashboard.encoding import data_file, file_id
from paceline.dashboard.frame import Head, Options, Verdicts, read_frame
from paceline.dashboard.pages import Pages, shards
from paceline.dashboard.run_files import Copies, SessionPath
from paceline.dashboard.site import shell
from paceline.errors import PacelineError
from paceline.history.store.columns import LAST, CaseGroup, Marks
from paceline.history.store.store import Store
from paceline.record import below
from paceline.record.codec import dump_plain, load
from paceline.record.redact import Redactor

FORMAT = 2
MANIFEST = "data/manifest.json"
MOST_MANIFEST_BYTES = 1 << 30
LONGEST_TAIL = 64
"""How many new records a case gathers at least before its large file is written again; at most twice as many, so that
not all cases do it in the same night."""

_OURS = re.compile(
    r"data/(case/[0-9a-f]{16}(-old)?|session/[0-9a-f]{32}|evals/[0-9a-f]{32}|files/[0-9a-f]{32}/[0-9]{1,9}"
    r"|environment/[0-9]{1,18}|incident/[0-9a-f]{16}|source/[0-9]{1,18})\.js|artifacts/[0-9a-f]{2}/[0-9a-f]{32}\.(txt|png|jpg|gif|bin)"
)
"""What a site may hold of a case, a session or an environment: no other file is ever removed."""


@dataclass(slots=True, kw_only=True)
class Built:
    """What a build did; counted up while it goes on."""

    cases: int = 0
    sessions: int = 0
    kept_cases: int = 0
    kept_sessions: int = 0
    files: int = 0
    size_bytes: int = 0


@dataclass(slots=True, kw_only=True)
class Manifest:
    """What the site was made from: what has the same mark now need not be made again."""

    cases: dict[str, Any] = field(default_factory=dict)
    sessions: dict[str, Any] = field(default_factory=dict)
    sides: dict[str, Any] = field(default_factory=dict)

    @property
    def summaries(self) -> dict[str, Any]:
        return {ident: entry["summary"] for ident, entry in self.sessions.items()}


class Builder:
    """Builds a site from one frame of the history into one directory."""

    def __init__(
        self, store: Store, out: Path, options: Options, verdicts: Verdicts, marks: Marks | None
    ) -> None:
        self._out = out
        self._options = options
        store.database.map_nothing()
        self._frame = read_frame(store, verdicts, marks)
        self._pages = Pages(store, self._frame, options)
        self._old, self._new = read_manifest(out), Manifest()
        out.mkdir(parents=True, exist_ok=True)
        self.built = Built()

    def build(self) -> Built:
        self._write_all(shell(shards=max(shards(self._frame), default=-1) + 1))
        for group in self._frame.groups:
            self._case(group)
        newest = self._frame.newest()
        with_files = {head.id for head in newest[: self._options.files_of]}
        for head in newest:
            self._session(head, self._pages.find(head) if head.id in with_files else None)
        self._sides()
        summaries = self._new.summaries
        for shard in shards(self._frame):
            self._write(f"sessions/{shard}", self._pages.sessions(shard, summaries))
            self._write(f"heads/{shard}", self._pages.heads(shard))
        for incident in self._frame.verdicts.incidents:
            page = self._pages.incidents.page(incident)
            self._side(f"incident/{file_id(incident.id)}", page, lambda page=page: page)  # type: ignore[misc]
        trends = {group.key: self._new.cases[file_id(group.key)]["trend"] for group in self._frame.groups}
        self._write("search", self._pages.search(trends))
        overview = self._pages.overview(summaries)
        self._write("overview", overview)
        self._write_all(badge_files(overview))
        self._write_bytes("feed.xml", feed_file(overview))
        self._finish()
        return self.built

    def _write_all(self, files: Iterable[tuple[str, bytes]]) -> None:
        for path, data in files:
            self._write_bytes(path, data)

    def _write(self, name: str, value: Any) -> None:
        self._write_bytes(f"data/{name}.js", data_file(name, value))

    def _write_bytes(self, path: str, data: bytes) -> None:
        below.write(self._out, path, data, durable=False)
        self.built.files += 1
        self.built.size_bytes += len(data)

    def _case(self, group: CaseGroup) -> None:
        name = file_id(group.key)
        known = self._old.cases.get(name, {})
        marks = self._frame.of_case(group)
        split = self._split(name, known, marks)
        place = int(np.searchsorted(marks.ids, split, side="right"))
        entry = {"split": split, "body": _mark(marks, 0, place), "tail": _mark(marks, place, len(marks.ids))}
        entry["meta"] = _digest([group.rows, group.params, self._meta(group)])
        self._new.cases[name] = entry
        if {**entry, "trend": known.get("trend")} == known:
            entry["trend"] = known["trend"]
            self.built.kept_cases += 1
            return
        entry["trend"] = self._pages.latest.trend(group)
        if (entry["body"], entry["split"]) != (known.get("body"), known.get("split")):
            self._write(f"case/{name}-old", self._pages.case_body(group, split))
        self._write(f"case/{name}", self._pages.case(group, split))
        self.built.cases += 1

    def _split(self, name: str, known: dict[str, Any], marks: Marks) -> int:
        """Up to which number a case's records are in its large file."""
        split = int(known.get("split", 0))
        place = int(np.searchsorted(marks.ids, split, side="right"))
        as_it_was = not split or known.get("body") == _mark(marks, 0, place)
        limit = LONGEST_TAIL + int(name[:4], 16) % LONGEST_TAIL
        return split if len(marks.ids) - place <= limit and as_it_was else int(marks.ids[-1])

    def _meta(self, group: CaseGroup) -> Any:
        keys, verdicts = (group.key, group.key.partition("[")[0]), self._frame.verdicts
        names, restless = verdicts.names.get(group.key), verdicts.restless.get(group.key)
        told = verdicts.of_case(group.key), names, restless, verdicts.order.generation
        return [[self._frame.epochs.get(key, ()) for key in keys], told]

    def _session(self, head: Head, files: SessionPath | None) -> None:
        known = self._old.sessions.get(head.id)
        own = self._frame.of_session(head.number)
        largest_bytes = self._options.largest_file_bytes
        mark = [_mark(own, 0, len(own.ids)), _digest(head), largest_bytes if files else None]
        if known and known["mark"] == mark:
            self._new.sessions[head.id] = known
            self.built.kept_sessions += 1
            return
        page, summary = self._pages.session(head)
        copies = Copies(self._out, largest_bytes, files.redactor if files else Redactor())
        found = dict(self._pages.files(head, page, copies.keep)) if files else {}
        for place, of_record in found.items():
            self._write(f"files/{head.id}/{place}", of_record)
        if "attentions" in page:
            self._write(f"evals/{head.id}", self._pages.evals(head))
        self._write(f"session/{head.id}", {**page, "files": sorted(found)})
        self._new.sessions[head.id] = {
            **{"mark": mark, "summary": summary, "files": sorted(found)},
            **({"artifacts": sorted(copies.sizes_bytes)} if copies.sizes_bytes else {}),
        }
        self.built.sessions += 1
        self.built.files += len(copies.sizes_bytes)
        self.built.size_bytes += sum(copies.sizes_bytes.values())

    def _sides(self) -> None:
        """Environments and sources, which pages load when somebody asks for them."""
        for row in self._frame.environments:
            self._side(f"environment/{int(row[0])}", row, partial(self._pages.environment, row[0]))
        for row in self._frame.sources:
            self._side(f"source/{int(row[0])}", row, partial(self._pages.source, row[0]))

    def _side(self, name: str, row: Any, make: Callable[[], Any]) -> None:
        mark = _digest(row)
        self._new.sides[name] = mark
        if self._old.sides.get(name) != mark:
            self._write(name, make())

    def _finish(self) -> None:
        """Remove the files of what is gone, then say what the site was made from."""
        kept = frozenset(_files_of(self._new))
        for path in _files_of(self._old):
            if path not in kept:
                below.remove(self._out, path)
        parts = {"cases": self._new.cases, "sessions": self._new.sessions, "sides": self._new.sides}
        self._write_bytes(MANIFEST, dump_plain({"format": FORMAT, "version": __version__, **parts}))


def _mark(marks: Marks, begin: int, end: int) -> list[int]:
    """A mark of a stretch of records: how many, and the sums of their digests and numbers."""
    digests, ids = marks.digests[begin:end], marks.ids[begin:end]
    return [len(ids), int(digests.sum()), int(ids.sum())]


def _files_of(manifest: Manifest) -> Iterator[str]:
    for name in manifest.cases:
        yield from (f"data/case/{name}.js", f"data/case/{name}-old.js")
    for ident, entry in manifest.sessions.items():
        yield f"data/session/{ident}.js"
        if "attentions" in entry["summary"]:
            yield f"data/evals/{ident}.js"
        yield from (f"data/files/{ident}/{place}.js" for place in entry["files"])
        yield from entry.get("artifacts", ())
    yield from (f"data/{name}.js" for name in manifest.sides)


def _digest(value: Any) -> str:
    return hashlib.blake2b(repr(value).encode("utf-8", "replace"), digest_size=8).hexdigest()


def read_manifest(out: Path) -> Manifest:
    """What the site in a directory was made from; a directory with other things in it is refused.

    A manifest that names anything but files of a site counts for nothing: all is written anew, and nothing removed.
    """
    try:
        stored = load(below.read(out, MANIFEST, MOST_MANIFEST_BYTES))
    except FileNotFoundError:
        if below.names(out):
            raise PacelineError(
                f"{out} is not empty and no dashboard: name a new directory, or empty it first"
            ) from None
        return Manifest()
    except (ValueError, RecursionError):
        return Manifest()
    try:
        if (stored["format"], stored["version"]) != (FORMAT, __version__):
            return Manifest()
        found = Manifest(cases=stored["cases"], sessions=stored["sessions"], sides=stored["sides"])
        whole = (
            all(map(_OURS.fullmatch, _files_of(found)))
            and all(
                isinstance(one["split"], int) and 0 <= one["split"] <= LAST and _is_trend(one["trend"])
                for one in found.cases.values()
            )
            and all(_is_whole(one["mark"], one["summary"]) for one in found.sessions.values())
        )
    except (LookupError, TypeError, AttributeError):
        return Manifest()
    return found if whole else Manifest()


def _is_trend(told: Any) -> bool:
    """Whether it is of the kind that a list of cases shows."""
    values, noise = told.get("values", []), told.get("noise", [])
    names = {"metric", "unit", "direction"}
    texts = all(isinstance(text, str) for name, text in told.items() if name in names)
    numbers = isinstance(values, list) and all(one is None or isinstance(one, int | float) for one in values)
    return (
        texts
        and numbers
        and all(_is_noise(*one) for one in noise)
        and {"values", "noise", *names} >= set(told)
    )


def _is_noise(
    variant: Any, version: Any, class_id: Any, relative: float | None, absolute: float, freedom: float
) -> bool:
    named = isinstance(variant, str) and isinstance(version, int) and isinstance(class_id, str)
    return named and (relative is None or relative >= 0) and absolute >= 0 and freedom >= 1


def _is_whole(mark: Any, summary: Any) -> bool:
    """Whether a session's summary is of the kind that `summarise` makes."""
    counts = [*summary["counts"].values(), *summary["health"].values(), summary["seconds"]]
    lists = (mark, summary["environments"], summary.get("variants", []), summary.get("attentions", []))
    known = {"counts", "health", "seconds", "environments", "variants", "attentions"}
    numbers = all(isinstance(one, int | float) for one in counts)
    return numbers and all(isinstance(one, list) for one in lists) and known >= set(summary)


def build(store: Store, out: Path, options: Options, verdicts: Verdicts, marks: Marks | None = None) -> Built:
    """Write the site into a directory, or bring the one that is there up to date."""
    try:
        return Builder(store, out, options, verdicts, marks).build()
    except OSError as error:
        raise PacelineError(f"cannot write the dashboard to {out}: {error.strerror or error}") from error
