"""A program in a terminal of its own, as a person uses it: what it shows, and keys to press."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.helpers import eventually

ANSWERS = {
    b"\x1b[6n": b"\x1b[1;1R",
    b"\x1b[c": b"\x1b[?62;c",
    b"\x1b]10;?": b"\x1b]10;rgb:ffff/ffff/ffff\x1b\\",
    b"\x1b]11;?": b"\x1b]11;rgb:0000/0000/0000\x1b\\",
    b"\x1b[?u": b"\x1b[?0u",
}
"""What a terminal answers to the questions of a program: place of the cursor, its kind, colours, kind of keyboard."""
MOVES = re.compile(rb"\x1b\[\d*C")
CODES = re.compile(rb"\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b[\[\(>=][0-9;?<>=]*[a-zA-Z]?|\x1b.")


class Terminal:
    def __init__(self, command: list[str], env: dict[str, str], folder: Path) -> None:
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(command[0], command, env)
        fcntl.ioctl(self.file, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.written = b""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with suppress(OSError):
            while part := os.read(self.file, 65_536):
                self.written += part
                for asked, answer in ANSWERS.items():
                    if asked in part:
                        os.write(self.file, answer)

    @property
    def text(self) -> str:
        """All that it has written, without colours and places."""
        return CODES.sub(b"", MOVES.sub(b" ", self.written)).decode("utf-8", "replace")

    def type(self, text: str) -> None:
        os.write(self.file, text.encode())

    def enter(self, text: str, is_done: Callable[[], object]) -> None:
        """Type a line. Programs take Enter as part of a paste right after other keys, so it is pressed until it works."""
        self.type(text)
        for _ in range(60):
            with suppress(AssertionError):
                eventually(is_done, seconds=1)
                return
            self.type("\r")
        raise AssertionError(self.text[-1500:])

    @property
    def has_ended(self) -> bool:
        try:
            return os.waitpid(self.pid, os.WNOHANG)[0] == self.pid
        except ChildProcessError:
            return True

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        eventually(lambda: self.has_ended)


@contextmanager
def open_terminal(command: list[str], env: dict[str, str], folder: Path) -> Iterator[Terminal]:
    terminal = Terminal(command, env, folder)
    try:
        yield terminal
    finally:
        terminal.kill()
        os.close(terminal.file)
