"""Files of other tools: read with bounds, unpacked; JSON documents in which everything knows its place.

So a fault can be named in one line.
"""

import gzip
import io
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.errors import HistoryError
from paceline.model import Scalar, is_number
from paceline.record import below, codec

MAX_BYTES = 512 << 20
"""More would take several times as much memory; the largest known file of these kinds has 100 MiB."""

_GZIP = b"\x1f\x8b"

_EXACT = 1 << 53  # Larger integers are not exact in a database's numbers anyway, and may not fit them.
_LONGEST_TEXT = 200
_LONGEST_COUNT = 16
_KINDS = {dict: "an object", list: "a list", str: "text", bool: "true or false"}


def complain(file: object, what: str, remedy: str) -> HistoryError:
    """One line: the file, what is wrong with it, what to do."""
    name = str(file)
    return HistoryError(f"{name if name.isprintable() else ascii(name)}: {what}; {remedy}")


def read_head(path: Path, count: int) -> bytes:
    """A file's first bytes. What is no regular file is refused: to read it might never end."""
    try:
        with below.open_given(path) as file:
            return file.read(count)
    except below.Refused as error:
        raise complain(path, "is not a regular file", "name a file or a directory of files") from error
    except OSError as error:
        what = f"cannot be read ({error.strerror or error})"
        raise complain(path, what, "check the path and its permissions") from error


def read_bytes(path: Path) -> bytes:
    """What a file holds, unpacked if it is gzip's."""
    data = read_head(path, MAX_BYTES + 1)
    if data.startswith(_GZIP):
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
                data = packed.read(MAX_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise complain(path, f"is damaged ({error})", "copy or export it again") from error
    if len(data) > MAX_BYTES:
        raise complain(path, f"is larger than {MAX_BYTES >> 20} MiB", "split it and import the parts")
    return data


def parse(data: bytes, file: object) -> "Value":
    """The JSON value in a file's bytes; NaN and infinities, a byte order mark and UTF-16 are taken as well."""
    if not data.strip():
        raise complain(file, "is empty", "export it again")
    try:
        return Value(_load(data), str(file))
    except UnicodeDecodeError as error:
        what = f"is not UTF-8 text (byte {error.start})"
        raise complain(file, what, "convert it to UTF-8 and import it again") from error
    except json.JSONDecodeError as error:
        what = f"is no {'complete ' if error.pos else ''}JSON (line {error.lineno}: {error.msg})"
        remedy = "copy or export it again" if error.pos else "name a file of results"
        raise complain(file, what, remedy) from error
    except RecursionError as error:
        raise complain(file, "is nested too deeply", "this is no result file; leave it out") from error
    except ValueError as error:
        raise complain(file, f"cannot be read as JSON ({error!s:.80})", "export it again") from error


def _load(data: bytes) -> Any:
    try:
        found = codec.load(data)
    except ValueError:  # Python's own reader takes what most tools of Python write: NaN, Infinity.
        found = json.loads(data)
    # No database takes lone surrogates, and not all take NUL; only escapes can put them into JSON.
    return _storable(found) if b"\\u" in data or b"\\\0u" in data else found


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, list):
        return [_storable(item) for item in value]
    if isinstance(value, dict):
        return {storable_text(key): _storable(item) for key, item in value.items()}
    return value


def storable_text(text: str) -> str:
    """A text that every database takes."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def read_json(path: Path) -> "Value":
    """The JSON document in a file."""
    return parse(read_bytes(path), path)


@dataclass(frozen=True, slots=True)
class Value:
    """A value in a document that knows its place; what is absent is a value as well, of None."""

    data: Any
    file: str
    path: str = ""

    def get(self, key: str) -> "Value":
        """The field of that name, of None where there is none."""
        fields = {} if self.data is None else self.fields
        return Value(fields.get(key), self.file, f"{self.path}.{key}" if self.path else key)

    def __getitem__(self, key: str) -> "Value":
        """The field of that name, which must be there."""
        found = self.get(key)
        if found.data is None:
            raise found.wrong("is missing")
        return found

    @property
    def fields(self) -> dict[str, Any]:
        if not isinstance(self.data, dict):
            raise self._expected("an object")
        return self.data

    def items(self) -> Iterator[tuple[str, "Value"]]:
        """All fields of an object; none of what is absent."""
        for name in {} if self.data is None else self.fields:
            yield name, self.get(name)

    def each(self) -> Iterator["Value"]:
        """All elements of a list; none of what is absent."""
        if not isinstance(self.data, list | None):
            raise self._expected("a list")
        for position, item in enumerate(self.data or ()):
            yield Value(item, self.file, f"{self.path}[{position}]")

    def text(self, default: str | None = None) -> str:
        """A text, or a number as text."""
        if self.data is None and default is not None:
            return default
        if isinstance(self.data, str):
            return self.data
        if isinstance(self.data, int | float):
            return str(self.number())
        raise self._expected("text")

    def number(self) -> float:
        """A number that a database can hold."""
        if not self.is_number():
            raise self._expected("a number")
        if isinstance(self.data, int) and abs(self.data) < _EXACT:
            return int(self.data)
        try:
            return float(self.data)
        except OverflowError as error:
            raise self.wrong("is too large a number") from error

    def numbers(self) -> tuple[float, ...]:
        """A list of numbers; empty if absent."""
        if isinstance(self.data, list) and all(type(item) is float for item in self.data):
            return tuple(self.data)
        return tuple(item.number() for item in self.each())

    def count(self) -> int:
        """A number of things, also if it is written as text; 0 if that is unknown."""
        text = str(self.data).strip()
        return int(text) if text.isdecimal() and len(text) < _LONGEST_COUNT else 0

    def is_number(self) -> bool:
        return is_number(self.data)

    def scalar(self) -> Scalar:
        """One value as a parameter has it; lists and objects become their JSON text, cut if it is long."""
        if self.data is None or isinstance(self.data, bool):
            return self.data
        if isinstance(self.data, int | float):
            return self.number()
        text = self.data if isinstance(self.data, str) else codec.dump(self.data).decode()
        return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…{codec.digest(text)}"

    def scalars(self) -> dict[str, Scalar]:
        """The fields of an object, each as a parameter has it."""
        return {name: value.scalar() for name, value in self.items()}

    def wrong(self, what: str, remedy: str = "export the file again, or name its --format") -> HistoryError:
        return complain(self.file, f"{self.path}: {what}" if self.path else what, remedy)

    def _expected(self, kind: str) -> HistoryError:
        if self.data is None:
            return self.wrong("is missing")
        return self.wrong(f"expected {kind}, found {_KINDS.get(type(self.data), 'a number')}")
