"""Measure the doorbell with real programs: `python -m tests.clients.wake_times [PROGRAM …]`. Prints tables.

Time from a post to the first request of the turn to the model; messages that were lost or came twice; what 20 waiters
cost while nothing happens.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.clients.install import install, install_newest
from tests.clients.programs import PROGRAMS
from tests.clients.run import start_palaver
from tests.clients.test_wake import ASKS, Seat
from tests.helpers import environment, eventually

LONG = 120.0


def read_later(seat: Seat, text: str, known: int) -> int:
    """Wait until a new request to the model has the text. Returns how many requests there are."""
    assert seat.model
    requests = seat.model.requests

    def has_it() -> bool:
        return any(text in json.dumps(body) for _, body in requests[known:])

    eventually(has_it, LONG)
    return len(requests)


def times(seat: Seat, wakes: int) -> str:
    assert seat.model
    found = []
    for number in range(wakes):
        eventually(lambda: seat.is_idle, LONG)
        known, began = len(seat.model.requests), time.monotonic()
        seat.post(f"@{seat.name} lighthouse-{number}-")
        read_later(seat, f"lighthouse-{number}-", known)
        found.append(time.monotonic() - began)
    cuts = statistics.quantiles(found, n=20, method="inclusive")
    return f"{statistics.median(found):.2f} s | {cuts[18]:.2f} s | {max(found):.2f} s"


def messages(seat: Seat, count: int, pause: float) -> str:
    """Post without waiting for the program. In the last request each message must be in one delivery. Claude Code shows
    the model what a stop said twice, so deliveries are told apart by the marks of their fences."""
    assert seat.model
    known = len(seat.model.requests)
    for number in range(count):
        seat.post(f"@{seat.name} harbour-{number}-")
        time.sleep(pause)
    read_later(seat, f"harbour-{count - 1}-", known)
    eventually(lambda: seat.is_idle, LONG)
    deliveries = dict(re.findall(r"\[data (\w+): [^]]*\](.*?)\[end of data \1\]", seat.turns[-1]))
    seen = [sum(f"harbour-{number}-" in text for text in deliveries.values()) for number in range(count)]
    return f"{count} | {seen.count(0)} | {sum(one > 1 for one in seen)}"


def measure(name: str, given: argparse.Namespace) -> str:
    program = next(program for program in PROGRAMS if program.name == name)
    version, place = install_newest(program) if given.newest else (program.version, install(program))
    with TemporaryDirectory() as folder, start_palaver(Path(folder) / "palaver") as palaver:
        (Path(folder) / "home").mkdir()
        seat = Seat(program, place, Path(folder) / "home", palaver)
        with seat.open() as terminal:
            terminal.enter("Follow the script.", lambda: seat.turns)
            took = times(seat, given.wakes)
            return f"| {name} {version} | {took} | {messages(seat, given.messages, given.pause)} |"


def idle(waiters: int, minutes: float) -> str:
    """What waiting sessions cost the machine: CPU seconds of all waiters and of the server, private memory of one."""
    with TemporaryDirectory() as folder, start_palaver(Path(folder) / "palaver") as palaver:
        assert palaver.server
        env = environment(palaver.home, CLAUDE_CODE_ENTRYPOINT="cli", AI_AGENT="claude-code")
        command = [sys.executable, "-m", "palaver", "hook", "wait"]
        pipe = subprocess.PIPE
        started = [subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, stderr=pipe) for _ in range(waiters)]
        for number, process in enumerate(started):
            assert process.stdin
            process.stdin.write(json.dumps({"session_id": f"s{number}", "cwd": f"/nowhere/{number}"}).encode())
            process.stdin.close()

        eventually(lambda: len(list((palaver.home / "hooks").glob("wait_*"))) == waiters)
        pids = [process.pid for process in started]
        time.sleep(5)
        before = [cpu(pids), cpu([palaver.server.pid])]
        time.sleep(minutes * 60)
        after = [cpu(pids), cpu([palaver.server.pid])]
        private = [memory(pid) for pid in pids]
        for process in started:
            process.kill()
            process.wait()
    own, server = (late - early for early, late in zip(before, after, strict=True))
    return f"| {waiters} | {minutes:g} min | {own:.2f} s | {server:.2f} s | {max(private):.1f} MB |"


def cpu(pids: list[int]) -> float:
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs="*", default=list(ASKS), help=f"Some of {', '.join(ASKS)}.")
    parser.add_argument("--wakes", type=int, default=50)
    parser.add_argument("--messages", type=int, default=334, help="Messages to each program.")
    parser.add_argument("--pause", type=float, default=1.0, help="Seconds between two of them.")
    parser.add_argument("--minutes", type=float, default=5, help="How long 20 waiters are idle.")
    parser.add_argument("--newest", action="store_true", help="Use the newest versions, not those of the tests.")
    given = parser.parse_args()
    with ThreadPoolExecutor() as pool:
        rows = [pool.submit(measure, name, given) for name in given.programs]
        print("| program | p50 | p95 | longest | messages | lost | twice |\n|---|---|---|---|---|---|---|", flush=True)
        for row in rows:
            print(row.result(), flush=True)
    if given.minutes:
        print(
            "\n| waiters | for | CPU of all | CPU of the server | private memory |\n|---|---|---|---|---|", flush=True
        )
        print(idle(20, given.minutes))


if __name__ == "__main__":
    main()
