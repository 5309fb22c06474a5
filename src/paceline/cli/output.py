"""Standard output, which may be closed, full, or read by somebody who goes away."""

import os
import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TextIO

import click

from paceline.errors import PacelineError
from paceline.report.table import screen_of, wrapped

if TYPE_CHECKING:
    from logging import LogRecord

_CONTROL_IN_JSON = re.compile(rb"\xc2[\x80-\x9f]|\x7f")  # in UTF-8
_logged: set[str] = set()


class OutputError(PacelineError):
    """Standard output takes no more."""

    exit_code = 1


def open_streams() -> None:
    """Give a command that was started with closed streams some that lead nowhere."""
    # Also by their numbers, or the next file to be opened would become what children take for their output.
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdout = sys.stdout or _open_nowhere()
    sys.stderr = sys.stderr or _open_nowhere()
    for stream in (sys.stdout, sys.stderr):
        # A name that the terminal's encoding lacks is shown escaped; it never ends a command.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    sys.stderr = CleanStream(sys.stderr)


class CleanStream:
    """Standard error without anything that a terminal obeys, but for colours.

    Errors, warnings and what libraries print quote files and answers of others.
    """

    def __init__(self, stream: TextIO) -> None:
        self.uncleaned = stream

    def write(self, text: str) -> int:
        return self.uncleaned.write(_cleaned(text))

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.uncleaned, name)


def _cleaned(text: str) -> str:
    if text.replace("\n", "").isprintable():
        return text
    from paceline.report.format import cleaned

    return cleaned(text)


def _open_nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - open until the process ends


def write(text: str) -> None:
    """Print text, without what a terminal would obey."""
    try:
        sys.stdout.write(_cleaned(text))
    except BrokenPipeError:
        raise  # click ends the command silently
    except OSError as error:
        raise _give_up(error) from error


def write_bytes(data: bytes) -> None:
    """Print bytes as they are, whatever the encoding of the terminal."""
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _give_up(error) from error


def write_lines(lines: Iterable[str]) -> None:
    """Print lines, with our symbols spelled out where the terminal's encoding lacks them."""
    from paceline.report.format import spelled_for

    for line in lines:
        write(f"{spelled_for(sys.stdout.encoding, line)}\n")


def page_lines(lines: Iterable[str]) -> None:
    """Print lines, none wider than a terminal; through the user's pager where that is too short, as git does."""
    screen = screen_of(sys.stdout)
    known = [part for line in lines for part in wrapped(line, screen)]
    if screen.height is None or len(known) < screen.height or not is_terminal():
        write_lines(known)
        return
    # As git has it: leave at once if all fits, keep colours, leave the text on the screen.
    os.environ.setdefault("LESS", "FRX")
    click.echo_via_pager(f"{_cleaned(line)}\n" for line in known)


def write_json(value: Any) -> None:
    """Print a value as JSON, over several lines."""
    from paceline.record.codec import dump

    write_encoded(dump(value, pretty=True) + b"\n")


def write_encoded(data: bytes) -> None:
    """Print JSON that is encoded already; what JSON leaves as it is and terminals obey is escaped."""
    write_bytes(_CONTROL_IN_JSON.sub(lambda found: b"\\u00%02x" % found[0][-1], data))


def error_text(error: PacelineError, text: str | None = None) -> str:
    """What is printed of an error, or this part of it: its message with the values of secrets masked."""
    return masked(str(error) if text is None else text, error.secret_names)


def masked(text: str, secret_names: Iterable[str] = ()) -> str:
    """A text with the values of secret variables and the credentials in URLs masked."""
    from paceline.record.redact import (  # only an error has something to hide
        Redactor,
        mask_urls,
        secret_values,
    )

    masked_text: str = mask_urls(text)
    return Redactor(secret_values(os.environ, secret_names)).text(masked_text)


def is_terminal() -> bool:
    """Whether standard output is a terminal that can move its cursor."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def wants_colour() -> bool:
    return (is_terminal() or bool(os.environ.get("FORCE_COLOR"))) and not os.environ.get("NO_COLOR")


def flush(fault: OSError | None = None) -> bool:
    """Write out what is buffered, unless it is known why not; whether it could be.

    A reader that has gone, as in `paceline plan | head`, is not an error.
    """
    try:
        if fault is not None:
            raise fault
        sys.stdout.flush()
    except BrokenPipeError as error:
        _give_up(error)
    except OSError as error:
        click.echo(f"paceline: {_give_up(error)}", err=True)
        return False
    return True


def _give_up(error: OSError) -> OutputError:
    """Send what is still buffered nowhere, so that it is not tried and complained about once more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
    return OutputError(f"cannot write to standard output: {error.strerror or error}")


def log_once() -> None:
    """Print a warning about an unreadable record once, though a command reads the record for each part of a report."""
    from logging import getLogger

    getLogger("paceline.record.codec").addFilter(_is_new)  # adding it again changes nothing


def _is_new(record: "LogRecord") -> bool:
    message = record.getMessage()
    if message in _logged:
        return False
    _logged.add(message)
    return True
