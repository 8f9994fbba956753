"""How long `palaver hook` keeps its client waiting: from process start to exit, in turns with `python -c pass`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from measure import corpus, percentile
from ours import Ours

ROUNDS = 40
MESSAGES = 20_000
EVENTS = ("session-start", "prompt", "stop", "session-end")
PALAVER = Path(sys.executable).parent / "palaver"
LIMIT_MS, DOWN_LIMIT_MS = 150, 300


def timed(command: list[str], given: str, env: dict[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, input=given, text=True, env=env, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - began) * 1000


def main() -> int:
    times: dict[str, list[float]] = {}
    with Ours(corpus(MESSAGES), topics=50) as ours:
        env = {**os.environ, "PALAVER_HOME": str(ours.home)}
        down = {**os.environ, "PALAVER_HOME": str(ours.home), "PALAVER_URL": "http://127.0.0.1:9"}
        for number in range(ROUNDS):
            given = json.dumps({"session_id": f"s{number}", "cwd": os.getcwd(), "prompt": "go on"})
            times.setdefault("python -c pass", []).append(timed([sys.executable, "-c", "pass"], given, env))
            for event in EVENTS:
                times.setdefault(f"hook {event}", []).append(timed([str(PALAVER), "hook", event], given, env))
            times.setdefault("hook prompt, server down", []).append(
                timed([str(PALAVER), "hook", "prompt"], given, down)
            )
    bare = percentile(times["python -c pass"], 50)
    print("| what | p50 ms | p95 ms | p50 beside `python -c pass` | limit of p95 | met |\n|---|---|---|---|---|---|")
    is_good = True
    for name, found in times.items():
        p50, p95 = percentile(found, 50), percentile(found, 95)
        limit = DOWN_LIMIT_MS if "down" in name else LIMIT_MS
        is_met = p95 <= limit
        is_good &= is_met
        print(f"| {name} | {p50:.0f} | {p95:.0f} | {p50 / bare:.1f} × | {limit} | {'✓' if is_met else '✗'} |")
    return 0 if is_good else 1
