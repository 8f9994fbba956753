"""Processes that begin sooner: one that has imported palaver already forks for each that is asked for.

Starting Python and importing everything takes a second of work, and the tests start hundreds of servers. What is born here
runs `palaver` as a shell would start it: in a process of its own, with its own environment, folder and streams, ended by
signals and by nothing else. Only the imports are shared. Tests about the start itself start `python -m palaver`.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO
from uuid import uuid4

import palaver


class Newborn:
    """A process as `subprocess.Popen` shows it, as far as tests look at one."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._said = connection.makefile("r")
        self.pid = int(self._said.readline())
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("palaver", timeout or 0)
            self.returncode = int(self._said.readline())
            self._said.close()
            self._connection.close()
        return self.returncode

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(
    args: Sequence[str], env: Mapping[str, str], cwd: Path, stdin: IO[bytes], stdout: IO[bytes], stderr: IO[bytes]
) -> Newborn:
    """Begin `palaver` with these arguments, in exactly this environment."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(_address())
    socket.send_fds(connection, [b"!"], [stdin.fileno(), stdout.fileno(), stderr.fileno()])
    connection.sendall(json.dumps([list(args), dict(env), str(cwd)]).encode())
    connection.shutdown(socket.SHUT_WR)
    return Newborn(connection)


def run(
    args: Sequence[str], env: Mapping[str, str], cwd: Path, input: str, patience: float
) -> subprocess.CompletedProcess[str]:
    """Run `palaver` with these arguments to its end, and keep what it said."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(input.encode())
        given.seek(0)
        process = start(args, env, cwd, given, out, err)
        try:
            code = process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        said = []
        for stream in (out, err):
            stream.seek(0)
            said.append(stream.read().decode())
        return subprocess.CompletedProcess(["palaver", *args], code, *said)


@cache
def _address() -> str:
    """Where to ask for a process. It is there until this one ends, whichever way."""
    address = f"\0nursery-{uuid4().hex}"  # in no folder, so nothing is left of it
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen(64)
    command = [sys.executable, "-P", __file__, str(listening.fileno())]
    env = {**os.environ, "PYTHONPATH": str(Path(palaver.__file__).parents[1]), "PYTHONUNBUFFERED": "1"}
    nursery = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, pass_fds=[listening.fileno()])
    listening.close()
    atexit.register(nursery.communicate)
    return address


def be_born() -> list[str]:
    """Returns in each process that was asked for, with its arguments; and never in the one that forks."""
    listening = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who presses Ctrl-C means the tests: they end us by closing our stdin
    while listening in select.select([listening, sys.stdin], [], [])[0]:
        connection, _ = listening.accept()
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if os.fork():
            connection.close()
            continue
        listening.close()
        _, streams, _, _ = socket.recv_fds(connection, 1, 3)
        args, env, cwd = json.loads(connection.makefile("rb").read())
        if pid := os.fork():
            _mind(pid, connection, streams)
        connection.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.clear()
        os.environ.update(env)
        time.tzset()
        os.chdir(cwd)
        return list(args)
    os._exit(0)


def _mind(pid: int, connection: socket.socket, streams: list[int]) -> None:
    """Say who was born, and in the end how it ended. When nobody listens any more, the tests are gone: so is it then."""
    for stream in streams:
        os.close(stream)
    connection.sendall(b"%d\n" % pid)
    ended, either = os.pidfd_open(pid), select.poll()
    either.register(ended, select.POLLIN)
    either.register(connection, 0)  # both its directions are closed
    if ended not in dict(either.poll()):
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    try:
        connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
    finally:
        os._exit(0)


if __name__ == "__main__":
    import uvloop  # noqa: F401
    import websockets  # noqa: F401

    import palaver.doors.cli.operation_commands
    import palaver.doors.cli.serve
    import palaver.doors.http.server
    import palaver.store.engines.postgres.engine
    import palaver.store.engines.sqlite.engine
    from palaver.doors.cli.main import main

    sys.argv = ["palaver", *be_born()]
    main()
