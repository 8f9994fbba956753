"""How long callers wait while vectors are made in the background, in turns with times when the process is stopped."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable

import httpx
import psutil

from measure import corpus, percentile
from ours import Ours

MESSAGES = 20_000
TURNS = 16
REQUESTS = 60
WORKING, STOPPED = "while vectors are made", "while none are made"
LIMIT = 1.25
"""The largest ratio of the times, p95."""


def main() -> int:
    times: dict[str, dict[str, list[float]]] = {}
    with Ours(corpus(MESSAGES), topics=50, model="minilm") as ours:
        thread = ours.create_thread("vectors")
        requests: dict[str, Callable[[], httpx.Response]] = {
            "a post": lambda: ours.client.post(
                f"/api/threads/{thread}/messages", json={"author": "bench", "content": "the harbour is closed today"}
            ),
            "/healthz": lambda: ours.client.get("/healthz"),
            "a search": lambda: ours.client.post("/api/knowledge/search", json={"query": "when is the harbour closed"}),
        }
        deadline = time.monotonic() + 300
        while _done(ours) == 0:
            if time.monotonic() > deadline:
                sys.exit("no vectors were made")
            time.sleep(0.1)
        (worker,) = psutil.Process(ours.pid).children()
        for request in requests.values():
            request().raise_for_status()
        before, seconds = _done(ours), 0.0
        for turn in range(TURNS * 2):
            state = (WORKING, STOPPED)[(turn + turn // 2) % 2]
            worker.send_signal(signal.SIGCONT if state == WORKING else signal.SIGSTOP)
            turn_began = time.perf_counter()
            for _ in range(REQUESTS):
                for name, request in requests.items():
                    began = time.perf_counter()
                    request().raise_for_status()
                    times.setdefault(name, {}).setdefault(state, []).append((time.perf_counter() - began) * 1000)
            if state == WORKING:
                seconds += time.perf_counter() - turn_began
        worker.send_signal(signal.SIGCONT)
        made = (_done(ours) - before) / seconds
        server, process = (psutil.Process(pid).memory_info().rss / 2**20 for pid in (ours.pid, worker.pid))
    print("| what | p50 / p95 ms | without | ratio of p95 | target | met |\n|---|---|---|---|---|---|")
    is_good = True
    for name, both in times.items():
        (p50, p95), (bare50, bare95) = ([percentile(both[state], p) for p in (50, 95)] for state in (WORKING, STOPPED))
        is_met = p95 / bare95 <= LIMIT
        is_good &= is_met
        print(
            f"| {name} {WORKING} | {p50:.1f} / {p95:.1f} | {bare50:.1f} / {bare95:.1f} | {p95 / bare95:.2f} × "
            f"| ≤ {LIMIT} × | {'✓' if is_met else '✗'} |"
        )
    print(
        f"\nVectors made meanwhile: {made:.0f} a second. Resident memory: server {server:.0f} MB, process {process:.0f} MB."
    )
    return 0 if is_good else 1


def _done(ours: Ours) -> int:
    return int(ours.client.get("/api/status").raise_for_status().json()["model"]["done"])
