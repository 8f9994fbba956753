"""How long `palaver mcp` and commands take to start, with and without a server, in turns with `python -c pass`.

For `palaver mcp` the time ends with the first answer, for a command with its end. Processor time is that of the process
itself, without the server: it depends less on other work of the machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from measure import corpus, percentile
from ours import Ours

ROUNDS = 20
MESSAGES = 20_000
PALAVER = str(Path(sys.executable).parent / "palaver")
COMMANDS = ("--help", "status", "thread list", "post plans hello", "search hello")
ABOUT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
QUESTIONS = (
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": ABOUT},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
)


@dataclass
class Started:
    """What was measured of one kind of process."""

    limit_ms: int | None = None
    limit_megabytes: int | None = None
    first_ms: list[float] = field(default_factory=list)
    tools_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        is_fast = self.limit_ms is None or percentile(self.first_ms, 50) <= self.limit_ms
        is_small = self.limit_megabytes is None or percentile(self.megabytes, 50) <= self.limit_megabytes
        return is_fast and is_small

    def line(self, name: str, bare: float) -> str:
        p50 = percentile(self.first_ms, 50)
        tools = f"{percentile(self.tools_ms, 50):.0f}" if self.tools_ms else ""
        size = f"{percentile(self.megabytes, 50):.0f}" if self.megabytes else ""
        limit = f"{self.limit_ms} ms" if self.limit_ms else ""
        limit += f", {self.limit_megabytes} MB" if self.limit_megabytes else ""
        facts = [name, f"{p50:.0f}", f"{p50 / bare:.1f} ×", tools, f"{percentile(self.cpu_ms, 50):.0f}", size]
        return f"| {' | '.join(facts)} | {limit} | {'✓' if self.is_good else '✗'} |"


def measure_command(command: list[str], env: dict[str, str], into: Started) -> None:
    began = time.perf_counter()
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    into.first_ms.append((time.perf_counter() - began) * 1000)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    into.cpu_ms.append((used.ru_utime + used.ru_stime) * 1000)


def measure_mcp(env: dict[str, str], into: Started) -> None:
    began = time.perf_counter()
    process = subprocess.Popen([PALAVER, "mcp"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin
    assert process.stdout
    for question in QUESTIONS:
        process.stdin.write(json.dumps(question).encode() + b"\n")
        process.stdin.flush()
        if "id" in question:
            assert "result" in json.loads(process.stdout.readline())
            taken = (time.perf_counter() - began) * 1000
            (into.first_ms if question["id"] == 1 else into.tools_ms).append(taken)
    seen = psutil.Process(process.pid)
    into.cpu_ms.append(sum(seen.cpu_times()[:2]) * 1000)
    into.megabytes.append(seen.memory_info().rss / 2**20)
    process.stdin.close()
    process.wait()


def main() -> int:
    with Ours(corpus(MESSAGES), topics=50) as ours, tempfile.TemporaryDirectory() as alone:
        beside = {**os.environ, "PALAVER_HOME": str(ours.home)}
        without = {**os.environ, "PALAVER_HOME": alone}
        for env in (beside, without):
            subprocess.run([PALAVER, "thread", "create", "plans"], env=env, stdout=subprocess.DEVNULL, check=True)
            subprocess.run([PALAVER, "post", "plans", "hello"], env=env, stdout=subprocess.DEVNULL, check=True)
        bare = Started()
        found = {"`python -c pass`": bare}
        for _ in range(ROUNDS):
            measure_command([sys.executable, "-c", "pass"], without, bare)
            for env, place, mcp_limits, limit in (
                (beside, "beside a server", (400, 25), 300),
                (without, "without a server", (1000, None), 500),
            ):
                measure_mcp(env, found.setdefault(f"`palaver mcp`, {place}", Started(*mcp_limits)))
                for words in COMMANDS:
                    into = found.setdefault(f"`palaver {words}`, {place}", Started(limit))
                    measure_command([PALAVER, *words.split()], env, into)
    print("| what | first answer ms | beside `python -c pass` | tools/list ms | CPU ms | MB | limit | met |")
    print("|---|---|---|---|---|---|---|---|")
    for name, one in found.items():
        print(one.line(name, percentile(bare.first_ms, 50)))
    return 0 if all(one.is_good for one in found.values()) else 1
