"""Hostile variants of real files: broken bytes, values of other kinds, names and links that lead elsewhere."""

import gzip
import io
import json
import os
import pickle
import random
import sqlite3
import tarfile
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

# Put in as text, since Python itself would not write them.
_LITERALS = {
    "@deep@": "[" * 100_000 + "]" * 100_000,
    "@nested@": '{"a":' * 3_000 + "1" + "}" * 3_000,
    "@digits@": "9" * 5_000,
    "@overflow@": "1e999",
    "@half@": '"\\ud800"',
}


class Mutator:
    """Makes hostile variants by one random number generator; `root` has the canaries that they try to reach."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        self.chance = chance
        self.canary = root / "canary"
        touch = f"touch {root}/executed/by"
        self.texts = [
            *("../../x", "../../../../../canary/new", f"{self.canary}/keep.txt", f"{self.canary}/new", "..", "."),
            *("/dev/zero", "/dev/stdin", "/proc/self/environ", "a/../../../../canary/new", "~root/x", "-rf", "con\\x"),
            *("\x00", "a\x00b", "\x1b]0;owned\x07\x1b[2J", "\x9b31m", "a\nb\rc", "\u202egnp", "x" * 300, "x" * 100_000),
            *("${HOME}", "${CHAOS_SECRET}", "${NO_SUCH}", "{session_dir}", "{x.__class__}", "%(x)s", "%n%s", "{{}}"),
            *("os:system", "os.system", "chaos_evil:Sink", "chaos_evil", "subprocess:run", "builtins:eval"),
            *(f"$({touch}-shell)", f"`{touch}-ticks`", f"; {touch}-semicolon", f"| {touch}-pipe"),
            *("</script><script>alert(1)</script>", "'; DROP TABLE record; --", "=cmd|' /C calc'!A0"),
            *("s3://other/bucket", "file:///etc", "http://127.0.0.1:9/", "memory://x", "NaN", "Infinity", ""),
            *("2025-99-99T99:99:99Z", "9999-12-31T23:59:59+99:99", "passed", "0" * 40, "[", "(a+)+$" + "a" * 40),
        ]  # fmt: skip
        self.numbers: list[Any] = [
            *(0, -1, 1, 2**31, 2**63, 2**64, -(2**63), 10**30, 10**300, 1e308, -1e308, 5e-324, 0.1),
            *(float("nan"), float("inf"), -float("inf"), True, False, None),
        ]

    def value(self) -> Any:
        """A value that nobody expects."""
        kind = self.chance.random()
        if kind < 0.55:
            return self.chance.choice(self.texts)
        if kind < 0.8:
            return self.chance.choice(self.numbers)
        if kind < 0.9:
            return self.chance.choice([[], {}, [[]], {"": ""}, [None], {"a": {"b": {}}}, ["x"] * 10_000])
        return self.chance.choice([*_LITERALS])

    def bytes_of(self, data: bytes) -> bytes:
        """Flip bits, cut, repeat, leave out, put in."""
        changed = bytearray(data)
        for _ in range(self.chance.choice((1, 1, 1, 2, 5, 30))):
            at = self.chance.randrange(len(changed) + 1)
            size = self.chance.choice((1, 4, 16, 256, 4096))
            what = self.chance.randrange(6)
            if what == 0 and at < len(changed):
                changed[at] ^= 1 << self.chance.randrange(8)
            elif what == 1:
                del changed[at:]
            elif what == 2:
                del changed[at : at + size]
            elif what == 3:
                changed[at:at] = changed[at : at + size] * self.chance.choice((1, 2, 50))
            elif what == 4:
                changed[at : at + size] = self.chance.randbytes(size)
            else:
                changed[at:at] = str(self.value()).encode("utf-8", "replace")[:10_000]
        return bytes(changed)

    def structure(self, data: Any) -> Any:
        """Change some values of parsed JSON or YAML."""
        whole = [data]
        for _ in range(self.chance.choice((1, 1, 1, 2, 4))):
            places = list(_places(whole))
            container, key = self.chance.choice(places)
            what = self.chance.random()
            if what < 0.75:
                container[key] = self.value()
            elif what < 0.85 and container is not whole:
                del container[key]
            elif isinstance(container, dict):
                container[str(self.value())] = container[key]
            elif container is not whole:
                container.insert(0, container[key])
        return whole[0]

    def json_of(self, data: bytes) -> bytes:
        """A JSON file, or a line of JSON Lines, with other values in it."""
        text = data.decode()
        with suppress(ValueError):
            return self.dump(self.structure(json.loads(text)))
        lines = [line for line in text.split("\n") if line]
        at = self.chance.randrange(len(lines))
        with suppress(ValueError):
            lines[at] = self.dump(self.structure(json.loads(lines[at]))).decode()
        return ("\n".join(lines) + "\n").encode()

    def dump(self, value: Any) -> bytes:
        text = json.dumps(value)
        for name, literal in _LITERALS.items():
            text = text.replace(json.dumps(name), literal)
        return text.encode()

    def file(self, path: Path) -> None:
        """Change one file: its bytes, or its values where it has a structure."""
        data = path.read_bytes()
        is_json = path.suffix in (".json", ".jsonl") and data.strip()
        if is_json and self.chance.random() < 0.75:
            path.write_bytes(self.json_of(data))
        elif path.suffix in (".yaml", ".yml") and self.chance.random() < 0.6:
            import yaml

            path.write_text(yaml.safe_dump(self.structure(yaml.safe_load(data))))
        else:
            path.write_bytes(self.bytes_of(data))

    def tree(self, root: Path, depth: int = 5) -> None:
        """Change one thing in a directory: a file, or what stands in its place."""
        below = [path for path in sorted(root.rglob("*")) if len(path.relative_to(root).parts) <= depth]
        path = self.chance.choice(below)
        what = self.chance.random()
        if what < 0.6:
            files = [each for each in below if each.is_file() and not each.is_symlink()]
            self.file(self.chance.choice(files))
        elif what < 0.9:
            _remove(path)
            self._stand_in(path)
        else:
            with suppress(OSError, ValueError):
                path.rename(path.with_name(self.chance.choice(self.texts)[:200].replace("/", "_")))

    def _stand_in(self, path: Path) -> None:
        """Put something else where a file or directory was."""
        what = self.chance.randrange(8)
        if what < 3:
            targets = [f"{self.canary}/keep.txt", str(self.canary), f"{self.canary}/new", "/dev/zero"]
            path.symlink_to(self.chance.choice([*targets, "../../../../canary", path.name, "/proc/self/mem"]))
        elif what == 3:
            os.mkfifo(path)
        elif what == 4:
            path.mkdir()
            (path / "inner").write_text("{}")
        elif what == 5:
            with path.open("wb") as file:
                file.truncate(self.chance.choice((1 << 20, 1 << 33)))
        elif what == 6:
            path.write_bytes(b"")

    def database(self, path: Path) -> None:
        """Change a SQLite file: its bytes, its rows or its schema."""
        if self.chance.random() < 0.35:
            path.write_bytes(self.bytes_of(path.read_bytes()))
            return
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute("PRAGMA writable_schema = ON")
            query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
            tables = sorted(name for (name,) in database.execute(query))
            for _ in range(self.chance.choice((1, 1, 2, 5))):
                with suppress(sqlite3.Error, OverflowError, UnicodeError):
                    self._change_rows(database, self.chance.choice(tables))

    def _change_rows(self, database: sqlite3.Connection, table: str) -> None:
        columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
        if not columns:
            return  # It was dropped a moment ago.
        column = self.chance.choice(columns)
        what = self.chance.random()
        if what < 0.8:
            value = self.value()
            stored = value if isinstance(value, str | float | int | None) else json.dumps(value)
            stored = _LITERALS.get(stored, stored) if isinstance(stored, str) else stored
            stored = stored.encode() if isinstance(stored, str) and self.chance.random() < 0.2 else stored
            where = (
                ""
                if self.chance.random() < 0.5
                else f'WHERE "{column}" IN (SELECT "{column}" FROM "{table}" LIMIT 1)'
            )
            database.execute(f'UPDATE OR IGNORE "{table}" SET "{column}" = ? {where}', (stored,))
        elif what < 0.87:
            database.execute(
                f'DELETE FROM "{table}" WHERE "{column}" IN (SELECT "{column}" FROM "{table}" LIMIT 1)'
            )
        elif what < 0.93:
            database.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "gone"')
        else:
            database.execute(f'DROP TABLE "{table}"')
            if self.chance.random() < 0.5:
                database.execute(f'CREATE VIEW "{table}" AS SELECT 1 AS "{column}", load_extension(\'/x\')')

    def pickle_of(self, data: bytes, touch: str) -> bytes:
        """A pickle that runs something, needs much memory, or is broken."""
        what = self.chance.randrange(6)
        if what < 3:
            return self.bytes_of(data)
        if what == 3:
            name = self.chance.choice(("os system", "posix system", "builtins eval", "subprocess getoutput"))
            module, function = name.split()
            argument = f"__import__('os').system({touch!r})" if function == "eval" else touch
            gadget = f"c{module}\n{function}\n(V{argument}\ntR.".encode()
            return gadget if self.chance.random() < 0.5 else data[:-1] + gadget
        if what == 4:
            return pickle.dumps([self.value() for _ in range(10)])
        bombs = [
            b"(" * 100_000 + b"t" * 100_000 + b".",
            b"\x80\x04" + b"]" * 100_000 + b".",
            b"\x80\x04\x8d" + b"\xff" * 8,
        ]
        return self.chance.choice(
            [*bombs, b"]" + b"(2222222222l" * 2_000 + b".", b"L" + b"9" * 500_000 + b"L\n."]
        )

    def archive_of(self, data: bytes) -> bytes:
        """An archive with hostile members beside its own, or a broken one."""
        if self.chance.random() < 0.3:
            return self.bytes_of(data)
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            files = {member.name: archive.extractfile(member) for member in archive.getmembers()}
            members = [(tarfile.TarInfo(name), file.read() if file else b"") for name, file in files.items()]
        for _ in range(self.chance.choice((1, 2))):
            bad = tarfile.TarInfo(self.chance.choice([*self.texts, "record.json", "logs/stdout.log"])[:5000])
            kinds = (
                tarfile.REGTYPE,
                tarfile.SYMTYPE,
                tarfile.LNKTYPE,
                tarfile.FIFOTYPE,
                tarfile.CHRTYPE,
                tarfile.DIRTYPE,
            )
            bad.type = self.chance.choice(kinds)
            bad.linkname = self.chance.choice(self.texts)[:5000]
            content = self.chance.choice([b"hostile", b"{}", b"\x00" * (1 << 20)]) if bad.isreg() else b""
            members.insert(self.chance.randrange(len(members) + 1), (bad, content))
        return _packed(members)


def _packed(members: Sequence[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    target = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=target, mode="wb", compresslevel=1) as packed,
        tarfile.open(fileobj=packed, mode="w|") as archive,
    ):
        for member, content in members:
            member.size = len(content)
            with suppress(ValueError, UnicodeError):
                archive.addfile(member, io.BytesIO(content))
    return target.getvalue()


def _places(data: Any) -> Any:
    """Every container of a structure with each of its keys."""
    keys = list(data) if isinstance(data, dict) else range(len(data))
    for key in keys:
        yield data, key
        if isinstance(data[key], dict | list):
            yield from _places(data[key])


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        for each in path.iterdir():
            _remove(each)
        path.rmdir()
    else:
        path.unlink()
