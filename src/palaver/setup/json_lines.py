"""Talk to a program in JSON messages, one a line, over its standard input and output."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from palaver import child_process


class NoAnswer(Exception):
    """The program could not be started, or ended without an answer. The text says which."""


def exchange(
    command: Sequence[str], messages: Sequence[dict[str, Any]], seconds: float, env: Mapping[str, str] | None = None
) -> dict[Any, dict[str, Any]]:
    """Send messages, each after the answer to the one before. Returns the answers by their `id`."""
    try:
        process = subprocess.Popen(
            command,
            env={**child_process.clean_environment(), **(env or {})},
            cwd=os.path.expanduser("~"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError as problem:
        raise NoAnswer(f"{command[0]} cannot be started: {problem.strerror}.") from None
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    answers: dict[Any, dict[str, Any]] = {}
    try:
        assert process.stdin
        assert process.stdout
        for message in messages:
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            while "id" in message and message["id"] not in answers:
                if not (line := process.stdout.readline()):
                    raise NoAnswer(f"{command[0]} ends without an answer.")
                heard = _read(line)
                answers[heard.get("id")] = heard
        return answers
    except BrokenPipeError:
        raise NoAnswer(f"{command[0]} ends without an answer.") from None
    finally:
        timer.cancel()
        process.kill()
        process.communicate()


def _read(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}
