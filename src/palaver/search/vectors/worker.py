"""A process of low priority that makes vectors with a local model, so that the server stays quick.

The server writes texts to its stdin and reads their vectors from its stdout. The process ends when its stdin closes, so
it never outlives the server.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

from palaver import child_process
from palaver.search.vectors import encoders
from palaver.search.vectors.encoders import LONGEST_TEXT, CannotEncode

IDLE_SECONDS = 60.0
"""A process that was not used for so long is ended, because it takes 120 MB of memory."""
MOST_DEATHS = 3
"""How often a process may end before it has made the vectors of one batch."""
STOP_SECONDS = 2.0
MAIN = """\
import os
if hasattr(os, "nice"):
    os.nice(19)
if hasattr(os, "SCHED_IDLE"):
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except OSError:
        pass
from palaver.search.vectors.worker import serve
serve()
"""
"""The program of the process. It lowers its priority before it imports anything."""


class VectorWorker:
    """The process of one server. It is started when the first vector is made."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False
        self._starting = threading.Lock()
        self._used_at = 0.0

    @property
    def pid(self) -> int | None:
        """None if no process runs."""
        return self._process.pid if self._process else None

    def vectors(self, texts: Sequence[str], seconds: float) -> list[bytes]:
        """The vector of each text. If the process ends meanwhile, another one is started."""
        asked = json.dumps([text[:LONGEST_TEXT] for text in texts]).encode()
        code: int | None = None
        for _ in range(MOST_DEATHS):
            process = self._started()
            assert process.stdin is not None
            assert process.stdout is not None
            self._used_at = time.monotonic()
            limit = threading.Timer(seconds, process.kill)
            limit.start()
            try:
                _write(process.stdin, asked)
                answer = _read(process.stdout)
            except (EOFError, OSError):
                code = self._end(process)
                continue
            finally:
                limit.cancel()
            self._used_at = time.monotonic()
            if answer[:1] == b"p":
                raise CannotEncode(answer[1:].decode())
            size = (len(answer) - 1) // len(texts)
            return [answer[at : at + size] for at in range(1, len(answer), size)]
        raise CannotEncode(f"the process that makes vectors ended {MOST_DEATHS} times, the last time with {code}")

    @property
    def is_idle(self) -> bool:
        return self._process is not None and time.monotonic() - self._used_at > IDLE_SECONDS

    def stop(self) -> None:
        """End the process. The next call starts another one."""
        if self._process:
            self._end(self._process)

    def close(self) -> None:
        """End the process at once. No other one is started."""
        with self._starting:
            self._is_closed, process = True, self._process
        if process:
            process.kill()
            self._end(process)

    def _started(self) -> subprocess.Popen[bytes]:
        with self._starting:
            if self._is_closed:
                raise CannotEncode("the server is closing")
            if self._process is None:
                is_idle = getattr(subprocess, "IDLE_PRIORITY_CLASS", 0)  # on Windows
                self._process = child_process.with_pipes("-c", MAIN, self._model, cwd="/", creationflags=is_idle)
            return self._process

    def _end(self, process: subprocess.Popen[bytes]) -> int:
        """Close its pipes and wait until it has ended. Returns its exit code."""
        self._process = None
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        try:
            return process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def serve() -> None:
    """The main function of the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal reaches the server too, which ends this one
    model = sys.argv[1]
    with os.fdopen(os.dup(1), "wb") as pipe, suppress(EOFError, BrokenPipeError):
        os.dup2(2, 1)  # prints must not get into the pipe
        while True:
            texts = json.loads(_read(sys.stdin.buffer))
            try:
                encoder = encoders.encoder(model, "", "", is_quick=True)
                assert encoder is not None
                answer = b"v" + b"".join(encoders.packed(encoder.encode(texts, 0)))
            except Exception as problem:
                answer = b"p" + f"{problem or type(problem).__name__}".encode()
            _write(pipe, answer)


# Frames: the length in four bytes, then the content


def _write(pipe: IO[bytes], content: bytes) -> None:
    pipe.write(len(content).to_bytes(4, "big") + content)
    pipe.flush()


def _read(pipe: IO[bytes]) -> bytes:
    """The content of the next frame. EOFError if the other side has closed the pipe."""
    head = pipe.read(4)
    content = pipe.read(int.from_bytes(head, "big"))
    if len(head) < 4 or len(content) < int.from_bytes(head, "big"):
        raise EOFError
    return content
