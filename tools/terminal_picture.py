"""Runs a command on a pseudo-terminal and keeps what the terminal shows at its end as an SVG picture.

    python tools/terminal_picture.py docs/images/session.svg -- paceline run examples/quickstart.yaml

The command runs in a temporary directory with copies of `examples/` and `benchmarks/`, so that no path of this
machine is in the picture.
"""

import argparse
import codecs
import fcntl
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from rich.console import Console
from rich.text import Text

REPOSITORY = Path(__file__).resolve().parents[1]
CONTROL = re.compile(r"\x1b\[(\??[0-9;]*)([A-Za-z])|([\r\n])")
FROM_OUTSIDE = re.compile(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("picture", type=Path)
    parser.add_argument("--columns", type=int, default=110)
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="paceline-") as directory:
        for name in ("examples", "benchmarks"):
            shutil.copytree(REPOSITORY / name, Path(directory) / name)
        output = record(args.command, Path(directory), args.columns)
    args.picture.parent.mkdir(parents=True, exist_ok=True)
    args.picture.write_text(draw(args.command, screen_lines(output), args.columns), encoding="utf-8")


def record(command: list[str], directory: Path, columns: int) -> str:
    """All that a command writes to a terminal of this width."""
    reader, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "PATH": tools}
    process = subprocess.Popen(
        command, cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal
    )
    os.close(terminal)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    output = ""
    try:
        while chunk := os.read(reader, 65536):
            output += decoder.decode(chunk)
    except OSError:  # the terminal's other end was closed: the command is done
        pass
    os.close(reader)
    if process.wait():
        sys.exit(f"{shlex.join(command)} ended with exit code {process.returncode}:\n{output}")
    return output


def screen_lines(output: str) -> list[str]:
    """The lines that stay, colours included: obeys the cursor movements that a redrawn view uses."""
    lines, row, position = [""], 0, 0
    for found in CONTROL.finditer(output):
        lines[row] += output[position : found.start()]
        position = found.end()
        count, letter, ending = found.groups()
        if ending == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif letter == "A":
            row = max(0, row - int(count or 1))
        elif letter in ("K", "J"):
            lines[row] = ""
        elif letter == "m":
            lines[row] += found[0]
    lines[row] += output[position:]
    return lines


def draw(command: list[str], lines: list[str], columns: int) -> str:
    console = Console(record=True, width=columns, file=open(os.devnull, "w"), force_terminal=True)  # noqa: SIM115, PTH123
    console.print(Text.assemble(("$ ", "bold green"), (shlex.join(command), "bold")))
    for line in lines:
        console.print(Text.from_ansi(line), soft_wrap=True)
    picture = console.export_svg(title="paceline", unique_id="paceline")
    return FROM_OUTSIDE.sub("", picture)


if __name__ == "__main__":
    main()
