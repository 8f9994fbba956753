"""Start palaver processes quickly: a fork server imports palaver once and forks for each process.

A fresh Python needs seconds of CPU to import everything, and the tests start hundreds of processes. A forked process runs
`palaver` as a shell would: with its own environment, folder and streams, and it ends by signals. Only the imports are shared.
Tests about starting up run `python -m palaver` instead.
"""

from __future__ import annotations

import atexit
import gc
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import palaver


class ForkedProcess:
    """A process with the part of the `subprocess.Popen` interface that tests use."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._answers = connection.makefile("r")
        self.pid = int(self._answers.readline())
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("palaver", timeout or 0)
            self.returncode = int(self._answers.readline())
            self._answers.close()
            self._connection.close()
        return self.returncode

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended, and its exit code is on the way
                os.kill(self.pid, sig)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(
    args: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    stdin: IO[bytes],
    stdout: IO[bytes],
    stderr: IO[bytes],
    before: str = "",
) -> ForkedProcess:
    """Start `palaver` with these arguments, in exactly this environment. `before` is Python to run first."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect("\0" + _address())
    socket.send_fds(connection, [b"!"], [stdin.fileno(), stdout.fileno(), stderr.fileno()])
    connection.sendall(json.dumps([list(args), dict(env), str(cwd), before]).encode())
    connection.shutdown(socket.SHUT_WR)
    return ForkedProcess(connection)


def command(*args: str, before: str = "") -> list[str]:
    """A command line that does the same, for clients that start their server themselves."""
    return [sys.executable, "-I", "-S", str(Path(__file__).with_name("fork_client.py")), _address(), before, *args]


def run(
    args: Sequence[str], env: Mapping[str, str], cwd: Path, input: str, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run `palaver` with these arguments to its end, and return its exit code and output."""
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        stdin.write(input.encode())
        stdin.seek(0)
        process = start(args, env, cwd, stdin, out, err)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        output = []
        for stream in (out, err):
            stream.seek(0)
            output.append(stream.read().decode())
        return subprocess.CompletedProcess(["palaver", *args], code, *output)


SHARED = "TESTS_FORK_SERVER"
"""Environment variable with the address of a fork server for all workers of a test run."""


def share() -> None:
    """Start a fork server now, for this process and those that it starts from now on."""
    os.environ[SHARED] = _address()


@cache
def _address() -> str:
    """The name of the fork server's socket. The server runs until the process ends that started it."""
    if SHARED in os.environ:
        return os.environ[SHARED]
    address = f"fork-server-{uuid4().hex}"
    listening = socket.socket(socket.AF_UNIX)
    listening.bind("\0" + address)  # an abstract address: it leaves no file behind
    listening.listen(64)
    command = [sys.executable, "-P", __file__, str(listening.fileno())]
    env = {**os.environ, "PYTHONPATH": str(Path(palaver.__file__).parents[1]), "PYTHONUNBUFFERED": "1"}
    server = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, pass_fds=[listening.fileno()])
    listening.close()
    atexit.register(server.communicate)
    return address


_before: dict[str, Any] = {}
"""What the code that ran before palaver made: a VFS of SQLite, for example, lives as long as its object."""


def serve_forks(listening: socket.socket) -> list[str]:
    """Fork for each request. Returns the arguments in every child; the server itself ends when its stdin is closed.

    The server reports each child's pid and later its exit code. When the asking process has gone, its children are killed.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, which then close our stdin
    gc.collect()
    gc.freeze()  # collecting would write to, and so copy, every page that the children share
    events = select.poll()
    events.register(listening, select.POLLIN)
    events.register(sys.stdin, select.POLLIN)
    children: dict[int, tuple[socket.socket, int]] = {}
    by_connection: dict[int, int] = {}
    while True:
        for fd, _ in events.poll():
            if fd == sys.stdin.fileno():
                for _, pid in children.values():
                    os.kill(pid, signal.SIGKILL)
                os._exit(0)
            elif fd == listening.fileno():
                connection, _ = listening.accept()
                _, streams, _, _ = socket.recv_fds(connection, 1, 3)
                args, env, cwd, before = json.loads(connection.makefile("rb").read())
                pid = os.fork()
                if pid == 0:
                    listening.close()
                    connection.close()
                    for ended, (other, _) in children.items():
                        os.close(ended)
                        other.close()
                    for number, stream in enumerate(streams):
                        os.dup2(stream, number)
                        os.close(stream)
                    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
                    sys.stdout, sys.stderr = (
                        io.TextIOWrapper(io.FileIO(fd, "w", closefd=False), "utf-8", errors, write_through=True)
                        for fd, errors in ((1, "strict"), (2, "backslashreplace"))
                    )
                    signal.signal(signal.SIGINT, signal.default_int_handler)
                    os.environ.clear()
                    os.environ.update(env)
                    time.tzset()
                    os.chdir(cwd)
                    exec(before, _before)  # noqa: S102
                    return list(args)
                for stream in streams:
                    os.close(stream)
                connection.sendall(b"%d\n" % pid)
                ended = os.pidfd_open(pid)
                children[ended] = connection, pid
                by_connection[connection.fileno()] = pid
                events.register(ended, select.POLLIN)
                events.register(connection, 0)  # reports only that the other side has gone
            elif fd in by_connection:
                os.kill(by_connection.pop(fd), signal.SIGKILL)
                events.unregister(fd)
            elif fd in children:
                connection, pid = children.pop(fd)
                _, status = os.waitpid(pid, 0)
                events.unregister(fd)
                os.close(fd)
                if by_connection.pop(connection.fileno(), None):
                    events.unregister(connection)
                with suppress(BrokenPipeError):
                    connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
                connection.close()


if __name__ == "__main__":
    import anyio._backends._asyncio  # noqa: F401
    import uvicorn.lifespan.on
    import uvicorn.loops.uvloop
    import uvicorn.protocols.websockets.websockets_sansio_impl  # noqa: F401
    import uvloop  # noqa: F401
    import websockets  # noqa: F401

    import palaver.doors.cli.serve
    import palaver.store.engines.postgres.engine
    import palaver.store.engines.sqlite.engine
    from palaver.doors.cli import main as main_module
    from palaver.doors.cli import operation_commands  # noqa: F401
    from palaver.doors.cli.main import main
    from palaver.doors.http import console_files, rest, server  # noqa: F401
    from palaver.doors.mcp import tools
    from palaver.search.vectors import words

    # Fill the caches which each server would otherwise compute: the files of the console, word vectors and schemas.
    console = console_files.Console()
    console_files.Console = lambda: console  # type: ignore[assignment, misc]
    words.related("boat")
    words.asked_for(["no such word"])
    main_module.descriptions()
    rest.routes(1)
    for is_full in (True, False):
        tools.list_tools(tools.tools_by_name(), dotted=False, output=is_full, answers="full" if is_full else "plain")

    sys.argv = ["palaver", *serve_forks(socket.socket(fileno=int(sys.argv[1])))]
    try:
        main()
    except SystemExit as ended:
        if ended.code is not None and not isinstance(ended.code, int):
            raise
        # Skip the rest of Python's own ending: it would copy every page shared with the fork server.
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        with suppress(BrokenPipeError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(ended.code or 0)
