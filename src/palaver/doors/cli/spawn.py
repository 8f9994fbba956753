"""Command `spawn`: start a coding agent when a message names it and none of its sessions runs."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Lock, Semaphore, Thread
from typing import Any

import click

from palaver.doors import hook
from palaver.doors.cli import options, output
from palaver.errors import Refused, Unavailable

COMMANDS = {
    "claude-code": "claude -p --continue --allowedTools mcp__palaver -- {text}",
    "codex": "codex exec resume --last {text}",
    "opencode": "opencode run --continue {text}",
}
END_SECONDS = 5.0
"""A program may take this long to end after SIGTERM."""
MOST_OUTPUT, LAST_LINES = 4_000, 5
OVER = "another palaver spawn waits for it now, the agent was removed, or the server refused"


@options.add("url", "home")
@click.command(no_args_is_help=True)
@click.argument("client", type=click.Choice(list(COMMANDS)))
@click.argument("folders", nargs=-1, metavar="[FOLDER…]", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--most", type=click.IntRange(1, 100), default=1, show_default=True, help="How many run at once.")
@click.option("--command", metavar="COMMAND", help="What to start; {text} is the message. [default: see above]")
@click.pass_obj
def spawn(target: options.Target, client: str, folders: tuple[Path, ...], most: int, command: str | None) -> None:
    """Start a coding agent when a message names it and none of its sessions runs, until Ctrl-C.

    FOLDER is a folder that the agent works in; the default is this one. The message is the prompt. The command runs in
    the folder without a shell, and without a person: it may do what its own options and settings allow. The default
    commands continue the last session in the folder:

    \b
      claude -p --continue --allowedTools mcp__palaver -- {text}
      codex exec resume --last {text}
      opencode run --continue {text}

    A message is started with once. If the command fails, its exit code and last lines are printed, and the agent reads
    the message when its next session starts.
    """
    words = shlex.split(command or COMMANDS[client])
    if not any("{text}" in word for word in words):
        raise Refused("--command needs {text}: the message takes its place.")
    if not (program := shutil.which(words[0])):
        raise Refused(f"{words[0]} is not on PATH. Install it, or name another program with --command.")
    words[0] = os.path.abspath(program)  # a program of the same name in FOLDER is another one
    for name, value in (("PALAVER_HOME", target.home), ("PALAVER_URL", target.server)):
        if value:
            os.environ[name] = value
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    starter, threads = Starter(client, words, most), []
    with ExitStack() as locks:
        for folder in dict.fromkeys(one.resolve() for one in folders or [Path()]):
            try:
                locks.enter_context(hook.ShownFile(starter.session(folder), 0.0))
            except hook.HookProblem:
                raise Refused(f"Another palaver spawn starts {client} in {folder} already.") from None
            threads.append(Thread(target=starter.follow, args=[folder], daemon=True))
            output.note(f"Starts {client} in {folder} for messages to it. Stop with Ctrl-C.")
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            starter.end()
    raise Unavailable("Nothing to wait for any more.")


class Starter:
    """Starts the command for messages, `most` at once."""

    def __init__(self, client: str, words: list[str], most: int) -> None:
        self._client, self._words, self._slots = client, words, Semaphore(most)
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = Lock()  # held for good at the end, so that nothing is started any more

    def session(self, folder: Path) -> str:
        place = hashlib.sha256(f"{socket.gethostname()}:{folder}".encode()).hexdigest()
        return f"spawn-{self._client}-{place[:16]}"

    def follow(self, folder: Path) -> None:
        """Wait for messages and start the command, one at a time in this folder."""
        more: dict[str, Any] = {"starts": True, "confirmed": []}
        while True:
            said, told = hook.ask_wait(self._client, self.session(folder), str(folder), os.getpid(), more)
            if not said.get("text"):
                return output.note(f"No longer waits in {folder}: {OVER}.")
            if not self._slots.acquire(blocking=False):
                with self._slots:
                    continue  # ask again: a session may have begun, or there are more messages
            hook.confirm({name: told[name] for name in told if name not in more}, [said["delivery"]])
            problem = self._run(folder, said["text"])
            self._slots.release()
            output.note(f"{said['agent']} in {folder}: {problem or 'done'}")
            more = {"starts": True, "confirmed": [], "failed" if problem else "confirmed": [said["delivery"]]}

    def _run(self, folder: Path, text: str) -> str:
        """Run the command to its end. Returns why it failed."""
        command = [word.replace("{text}", text) for word in self._words]
        with tempfile.TemporaryFile() as out:
            try:
                with self._lock:
                    process = subprocess.Popen(
                        command,
                        cwd=folder,
                        stdin=subprocess.DEVNULL,
                        stdout=out,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                    )
                    self._running.add(process)
            except OSError as problem:
                return f"{command[0]} cannot be started: {problem.strerror}"
            code = process.wait()
            self._running.discard(process)
            size = out.seek(0, os.SEEK_END)
            out.seek(max(0, size - MOST_OUTPUT))
            lines = out.read().decode(errors="replace").splitlines()[-LAST_LINES:]
        return "\n  ".join([f"{command[0]} failed with exit code {code}.", *lines]) if code else ""

    def end(self) -> None:
        self._lock.acquire()
        for process in list(self._running):
            for end in (signal.SIGTERM, signal.SIGKILL):
                with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                    os.killpg(process.pid, end)
                    process.wait(END_SECONDS)
