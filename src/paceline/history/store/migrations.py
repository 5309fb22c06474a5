"""The steps from each schema to the next, in plain SQL that both databases take; a step that was released stays."""

# ruff: noqa: S608 - only names of our own are put into statements, never values

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from paceline.history.store.database import Database
from paceline.history.store.names import keep_names
from paceline.metrics import is_steady

_AT_ONCE = 1000


def _to_0002(database: Database) -> None:
    """The text of a test is kept once, however often it ran; before, each record carried its own copy."""
    database.rows(
        "CREATE TABLE source (id INTEGER NOT NULL, hash TEXT NOT NULL, text TEXT, PRIMARY KEY (id), UNIQUE (hash))"
    )
    database.rows("ALTER TABLE record ADD COLUMN source_id INTEGER")
    known: dict[str, tuple[int, bool]] = {}
    for number, outcome in _told_sources(database):
        details = outcome.get("details")
        hash_, text = _take_source(details) if isinstance(details, dict) else (None, None)
        if hash_ is None:
            continue
        if not details:
            del outcome["details"]
        source_id = _keep_source(database, known, hash_, text)
        data = json.dumps(outcome, ensure_ascii=False, separators=(",", ":")) if outcome else None
        database.rows("UPDATE record SET outcome = ?, source_id = ? WHERE id = ?", (data, source_id, number))


def _told_sources(database: Database) -> Iterator[tuple[int, dict[str, Any]]]:
    """The records that have the word in what is told of them, some at a time, in the order of their numbers."""
    select = "SELECT id, outcome FROM record WHERE id > ? AND outcome LIKE '%\"source%' ORDER BY id LIMIT ?"
    last = 0
    while rows := database.rows(select, (last, _AT_ONCE)):
        yield from ((number, json.loads(outcome)) for number, outcome in rows)
        last = rows[-1][0]


def _take_source(details: dict[str, Any]) -> tuple[str | None, str | None]:
    """Hash and text of the source, taken out of the details."""
    text, hash_ = details.get("source"), details.get("source_hash")
    for name, value in (("source", text), ("source_hash", hash_)):
        if isinstance(value, str):
            del details[name]
    text = text if isinstance(text, str) else None
    if isinstance(hash_, str) and hash_:
        return hash_, text
    return (None, None) if text is None else (hashlib.sha256(text.encode()).hexdigest()[:16], text)


def _keep_source(database: Database, known: dict[str, tuple[int, bool]], hash_: str, text: str | None) -> int:
    if hash_ not in known:
        number = len(known) + 1
        database.rows("INSERT INTO source (id, hash, text) VALUES (?, ?, ?)", (number, hash_, text))
        known[hash_] = number, text is not None
    number, has_text = known[hash_]
    if text is not None and not has_text:
        database.rows("UPDATE source SET text = ? WHERE id = ?", (text, number))
        known[hash_] = number, True
    return number


def _to_0003(database: Database) -> None:
    """What the judges found in the series, what people said about it, and up to where each case was looked at."""
    double, blob = ("DOUBLE", "BLOB") if database.is_sqlite else ("DOUBLE PRECISION", "BYTEA")
    names = _texts("incident", "case_key", "variant", "version", "metric", "unit", "environment_class")
    numbers = ", ".join(f"{name} {double}" for name in ("effect", "low", "high", "p_value"))
    places = _texts("last_good", "first_bad", "at_record", "at_time", "found_at", "found_in")
    database.rows(
        f"CREATE TABLE finding (ident TEXT NOT NULL, {names}, epoch INTEGER NOT NULL, {_texts('verdict')}, {numbers}, "
        f"{places}, suspects TEXT, {_texts('state', 'fixed_at')}, stands INTEGER NOT NULL, "
        "found_after INTEGER NOT NULL, PRIMARY KEY (ident))"
    )
    database.rows("CREATE INDEX finding_of_case ON finding (case_key)")
    words = _texts("finding_ident", "state", "why", "who", "at")
    database.rows(f"CREATE TABLE human_verdict (ident {blob} NOT NULL, {words}, PRIMARY KEY (ident))")
    database.rows(
        f"CREATE TABLE detection (case_key TEXT NOT NULL, {_texts('mark')}, PRIMARY KEY (case_key))"
    )


def _texts(*names: str) -> str:
    return ", ".join(f"{name} TEXT DEFAULT '' NOT NULL" for name in names)


def _to_0004(database: Database) -> None:
    """What disturbed the runs of a record, and where the branch of a session left the default one."""
    database.rows("ALTER TABLE record ADD COLUMN disturbed TEXT")
    database.rows(f"ALTER TABLE session ADD COLUMN {_texts('merge_base')}")


_NIGHT_SAID = re.compile(
    r"(?P<kind>Commit|Version|Removal) (?P<name>.+?) \((?P<subject>.+)\) changed .+: "
    r"(?P<bound>[<>] )?(?P<percent>[0-9.]+) % sure after (?P<runs>[0-9]+) runs\."
)


def _to_0005(database: Database) -> None:
    """What kind of change a finding is, how far it was followed up, and the culprit that a bisection found.

    A night wrote what it had found out among the words of people; that becomes the finding's stage.
    """
    database.rows("ALTER TABLE finding ADD COLUMN kind TEXT DEFAULT 'step' NOT NULL")
    database.rows("ALTER TABLE finding ADD COLUMN stage TEXT DEFAULT 'suspected' NOT NULL")
    database.rows("ALTER TABLE finding ADD COLUMN culprit TEXT")
    by_night = "who = 'paceline nightly' AND state = 'new'"
    said = database.rows(f"SELECT finding_ident, why FROM human_verdict WHERE {by_night} ORDER BY at")
    for ident, why in said:
        found = _NIGHT_SAID.match(why)
        told = ("bisected", json.dumps(_culprit(found))) if found else ("confirmed", None)
        database.rows("UPDATE finding SET stage = ?, culprit = ? WHERE ident = ?", (*told, ident))
    database.rows(f"DELETE FROM human_verdict WHERE {by_night}")


def _culprit(found: re.Match[str]) -> dict[str, object]:
    kind = found["kind"].lower()
    return {
        "kind": kind,
        "revision" if kind == "commit" else "name": found["name"],
        "subject": found["subject"],
        "probability": float(found["percent"]) / 100,
        "runs": int(found["runs"]),
    }


def _to_0006(database: Database) -> None:
    """Where revisions lie among the commits of their repository, and what a search for changes leaves for the next."""
    double = "DOUBLE" if database.is_sqlite else "DOUBLE PRECISION"
    database.rows(
        f"CREATE TABLE commit_place (revision TEXT NOT NULL, {_texts('repository')}, place INTEGER NOT NULL, "
        "is_main INTEGER NOT NULL, PRIMARY KEY (revision))"
    )
    database.rows(
        f"CREATE TABLE search_state (name TEXT NOT NULL, value {double} NOT NULL, PRIMARY KEY (name))"
    )
    # These were of a past that was imported, so no session has reported them, nor will one.
    database.rows("UPDATE finding SET found_in = '' WHERE found_after > 30")


def _to_0007(database: Database) -> None:
    """When commits were made, and their tags."""
    database.rows("ALTER TABLE commit_place ADD COLUMN commit_time TEXT")
    database.rows("ALTER TABLE commit_place ADD COLUMN tags TEXT")


def _to_0008(database: Database) -> None:
    """How many runs were made for a finding, on however many nights: what may be spent on one is limited."""
    database.rows("ALTER TABLE finding ADD COLUMN runs INTEGER DEFAULT '0' NOT NULL")


def _to_0009(database: Database) -> None:
    """What readers from outside need: the names that cases go by now, where commits lie in time, foreign keys."""
    database.rows(f'ALTER TABLE "case" ADD COLUMN {_texts("current_key")}')
    database.rows(f"ALTER TABLE epoch ADD COLUMN {_texts('current_key')}")
    database.rows("ALTER TABLE commit_place ADD COLUMN order_time TEXT")
    database.rows("ALTER TABLE series ADD COLUMN is_steady INTEGER DEFAULT '0' NOT NULL")
    known = database.rows("SELECT id, name, unit FROM series")
    steady = [(number,) for number, name, unit in known if is_steady(name, unit or None)]
    database.many("UPDATE series SET is_steady = 1 WHERE id = ?", steady)
    database.rows('CREATE INDEX case_by_name ON "case" (current_key)')
    database.rows("CREATE INDEX epoch_by_name ON epoch (current_key)")
    database.rows("CREATE INDEX record_of_revision ON record (revision) WHERE revision IS NOT NULL")
    keep_names(database)
    _declare_references(database)


_REFERENCES = {
    "package": {"environment_id": "environment"},
    "series": {"case_id": "case"},
    "record": {f"{table}_id": table for table in ("session", "case", "environment", "setting", "source")},
    "metric": {"series_id": "series", "record_id": "record"},
    "repeated_sample": {"series_id": "series", "record_id": "record"},
}


def _declare_references(database: Database) -> None:
    """A file's tables would have to be copied, so what SQLite keeps of their making is changed, as its manual says.

    https://sqlite.org/lang_altertable.html: a change that does not touch the rows.
    """
    told = {
        table: [f'FOREIGN KEY ({name}) REFERENCES "{to}" (id)' for name, to in names.items()]
        for table, names in _REFERENCES.items()
    }
    if not database.is_sqlite:
        for table in ("package", "series", "record"):
            for key in told[table]:
                database.rows(f"ALTER TABLE {table} ADD {key} DEFERRABLE INITIALLY DEFERRED")
        return
    ((version,),) = database.rows("PRAGMA schema_version")
    database.rows("PRAGMA writable_schema = ON")
    for table, keys in told.items():
        ((sql,),) = database.rows("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", (table,))
        inside, _, end = sql.rpartition(")")
        changed = f"{inside.rstrip()},\n  {', '.join(keys)}\n){end}"
        database.rows("UPDATE sqlite_master SET sql = ? WHERE type = 'table' AND name = ?", (changed, table))
    database.rows(f"PRAGMA schema_version = {version + 1}")
    database.rows("PRAGMA writable_schema = OFF")


STEPS: Mapping[str, Callable[[Database], None]] = {
    "0002": _to_0002,
    "0003": _to_0003,
    "0004": _to_0004,
    "0005": _to_0005,
    "0006": _to_0006,
    "0007": _to_0007,
    "0008": _to_0008,
    "0009": _to_0009,
}
"""What makes each schema of the one before it."""
