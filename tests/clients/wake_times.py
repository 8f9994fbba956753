"""Measure the doorbell with real programs: `python -m tests.clients.wake_times [PROGRAM …]`. Prints tables.

Time from a post to the first request of the turn to the model; messages that were lost or came twice, or whose receipt
differs from what the model read; what 20 waiters cost while nothing happens.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from tests.clients.install import install, install_newest
from tests.clients.model import CLOSING, Call
from tests.clients.programs import PROGRAMS
from tests.clients.run import start_palaver
from tests.clients.terminal import Terminal
from tests.clients.test_wake import ASKS, LONG, WOKEN, Seat
from tests.helpers import environment, eventually

from palaver.text import hook_text

WAYS = {
    "You are the agent": "briefing",
    hook_text.NEW_FOR_YOU: "prompt",
    hook_text.GO_ON: "stop",
    hook_text.WOKEN: "wake",
    hook_text.FROM_MEMORY: "",
}
"""How the texts from palaver begin."""


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


@dataclass(frozen=True)
class Read:
    """What the model read in one text from palaver."""

    way: str
    turn: int
    text: str


def what_was_read(seat: Seat) -> list[Read]:
    """The texts from palaver that the model read. Claude Code shows what a stop said twice, so they are told apart by the
    marks of their fences. A turn goes on after a call of the model, and when its stop said something."""
    found: dict[str, Read] = {}
    turn = ended = 0
    for asked in seat.turns:
        new = {}
        for fence in re.finditer(r"\[data (\w+): [^]]*\](.*?)\[end of data \1\]", asked):
            before = {asked.rfind(begin, 0, fence.start()): way for begin, way in WAYS.items()}
            if fence[1] not in found and (way := before[max(before)]):
                new[fence[1]] = (way, fence[2])
        ways = {way for way, _ in new.values()}
        if not turn or (asked.count(CLOSING) > ended and "stop" not in ways):
            turn += 1
        ended = asked.count(CLOSING)
        found |= {mark: Read(way, turn, text) for mark, (way, text) in new.items()}
    return list(found.values())


def messages(seat: Seat, terminal: Terminal, count: int, pause: float) -> str:
    """Post without waiting for the program, while a person types now and then and the model answers every tenth message.
    Then compare what the model read with the receipts. A last message finds nobody: the program was killed."""
    assert seat.model
    gaps = random.Random(39)
    with seat.palaver.rest() as api:

        def post(number: int) -> str:
            told = {"author": "ann", "content": f"@{seat.name} harbour-{number}-"}
            return str(api.post("/api/threads/plans/messages", json=told).raise_for_status().json()["id"])

        api.post("/api/threads", json={"topic": "plans"})
        ids: list[str] = []
        for number in range(count):
            ids.append(post(number))
            if number % 10 == 0:
                answer = {"thread_id": "plans", "content": f"done-{number}-", "reply_to_msg_id": ids[-1]}
                seat.model.once[f"harbour-{number}-"] = Call("msg_post", answer)
            time.sleep(pause * gaps.choice((0, 0, 1, 1, 3)))
            if number % 20 == 19:
                type_prompt(seat, terminal, f"Go on {number}.")
        seen: list[list[Read]] = []
        for number in range(20):
            eventually(lambda: seat.is_idle, LONG)
            read = what_was_read(seat)
            seen = [[one for one in read if f"harbour-{number}-" in one.text] for number in range(count)]
            if all(seen):
                break
            type_prompt(seat, terminal, f"Go on at the end {number}.")
        told = [receipts(api, id) for id in ids]
        posts = api.get("/api/threads/plans/messages", params={"limit": 1000}).raise_for_status().json()
        terminal.kill()
        eventually(lambda: not seat.waiters)
        last = post(count)
        eventually(lambda: receipts(api, last)[0]["state"] == "not_reached")
    wrong = 0
    for number in range(count):
        reply = next((one["id"] for one in posts if one["content"] == f"done-{number}-"), None)
        right = [("answered" if reply else "read", reply, read.way, read.turn) for read in seen[number]]
        said = [(one["state"], one["answer_id"], one["way"], one["turn"]) for one in told[number]]
        if said != right or bool(reply) != (number % 10 == 0):
            wrong += 1
            print(f"{seat.name} {number}: receipt {said}, read {right}", file=sys.stderr)
    ways = Counter(read[0].way for read in seen if read)
    shown = ", ".join(f"{way} {number}" for way, number in ways.most_common())
    return f"{count} | {seen.count([])} | {sum(len(one) > 1 for one in seen)} | {wrong} | {shown}"


def receipts(api: httpx.Client, message_id: str) -> list[dict[str, Any]]:
    return list(api.get(f"/api/messages/{message_id}/receipts").raise_for_status().json()["receipts"])


def type_prompt(seat: Seat, terminal: Terminal, text: str) -> None:
    assert seat.model
    requests = seat.model.requests
    eventually(lambda: seat.is_idle, LONG)
    known = len(requests)
    terminal.enter(text, lambda: any(text in json.dumps(body) for _, body in requests[known:]))


def measure(name: str, given: argparse.Namespace) -> str:
    program = next(program for program in PROGRAMS if program.name == name)
    version, place = install_newest(program) if given.newest else (program.version, install(program))
    with TemporaryDirectory() as folder, start_palaver(Path(folder) / "palaver") as palaver:
        (Path(folder) / "home").mkdir()
        seat = Seat(program, place, Path(folder) / "home", palaver)
        with seat.open() as terminal:
            terminal.enter("Follow the script.", lambda: seat.turns)
            took = times(seat, given.wakes) if name in WOKEN and given.wakes else "| |"
            return f"| {name} {version} | {took} | {messages(seat, terminal, given.messages, given.pause)} |"


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
    parser.add_argument("--messages", type=int, default=250, help="Messages to each program.")
    parser.add_argument("--pause", type=float, default=1.0, help="Seconds between two of them.")
    parser.add_argument("--minutes", type=float, default=5, help="How long 20 waiters are idle.")
    parser.add_argument("--newest", action="store_true", help="Use the newest versions, not those of the tests.")
    given = parser.parse_args()
    with ThreadPoolExecutor() as pool:
        rows = [pool.submit(measure, name, given) for name in given.programs]
        print(
            "| program | p50 | p95 | longest | messages | lost | twice | wrong receipts | way |\n" + "|---" * 9 + "|",
            flush=True,
        )
        for row in rows:
            print(row.result(), flush=True)
    if given.minutes:
        print(
            "\n| waiters | for | CPU of all | CPU of the server | private memory |\n|---|---|---|---|---|", flush=True
        )
        print(idle(20, given.minutes))


if __name__ == "__main__":
    main()
