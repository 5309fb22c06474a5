"""Real shells on a terminal of their own, into which a line is typed and completed."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from patience import PATIENCE_S

TAB, HOME, END, ENTER = "\t", "\x01", "\x05", "\r"


class Terminal:
    """A shell that waits for what is typed."""

    def __init__(self, command: list[str], cwd: Path, environ: Mapping[str, str]) -> None:
        self._master, slave = pty.openpty()
        self._shell = subprocess.Popen(
            command,
            cwd=cwd,
            env=dict(environ),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self._seen = ""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def wait_for(self, pattern: str) -> re.Match[str]:
        """What the shell has printed since the last such wait, as soon as it matches."""
        deadline = time.monotonic() + PATIENCE_S
        while not (match := re.search(pattern, self._seen)):
            ready, _, _ = select.select([self._master], [], [], deadline - time.monotonic())
            assert ready, f"{pattern!r} is not in {self._seen!r}"
            self._seen += os.read(self._master, 65536).decode(errors="replace").replace("\r", "")
        self._seen = self._seen[match.end() :]
        return match

    def close(self) -> None:
        self._shell.kill()
        self._shell.wait()
        os.close(self._master)


def shell_environ(cwd: Path) -> dict[str, str]:
    """Few variables, and our paceline first."""
    ours = Path(sys.executable).parent
    return {
        **{"PATH": f"{ours}{os.pathsep}{os.environ['PATH']}", "HOME": str(cwd), "TERM": "dumb"},
        **{"LC_ALL": "C.UTF-8", "PS1": "", "HISTFILE": ""},
    }


def start_bash(cwd: Path) -> Terminal:
    terminal = Terminal(["bash", "--norc", "--noprofile", "-i"], cwd, shell_environ(cwd))
    terminal.type("bind 'set bell-style none'; source <(paceline completion bash); echo rea''dy" + ENTER)
    terminal.wait_for("ready\n")
    return terminal


def start_zsh(cwd: Path) -> Terminal:
    terminal = Terminal(["zsh", "-f", "-i"], cwd, shell_environ(cwd))
    # NO_ZLE_RC things such as bracketed paste would print escape sequences between the words.
    setting = "unset zle_bracketed_paste; bindkey -e; unsetopt beep prompt_sp; autoload -Uz compinit; compinit -u -D"
    terminal.type(f"{setting}; source <(paceline completion zsh); echo rea''dy" + ENTER)
    terminal.wait_for("ready\n")
    return terminal


def complete_in(terminal: Terminal, line: str) -> list[str]:
    """The words of a line after a <Tab> at its end, as a program would get them."""
    terminal.type(line + TAB)
    # What is typed ahead waits in the terminal until the completion is done.
    terminal.type(f"{HOME}printf 'wor\\144:%s\\n' {END}; echo e''nd{ENTER}")
    found = terminal.wait_for(r"((?:word:[^\n]*\n)+)end\n")
    return re.findall(r"word:([^\n]*)", found[1])


def complete_in_fish(cwd: Path, line: str) -> list[str]:
    """What fish offers for a line."""
    script = "paceline completion fish | source; complete --do-complete $argv[1]"
    done = subprocess.run(
        ["fish", "--no-config", "-c", script, line],
        cwd=cwd,
        env=shell_environ(cwd),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    return [row.partition("\t")[0] for row in done.stdout.splitlines()]


def is_missing(shell: str) -> bool:
    return shutil.which(shell) is None
