"""`make bench`: palaver beside its nearest peer and beside the bare engine, in one run, as ratios.

Machines differ and are noisy; what is compared here shares the machine and the minute. Prints a table that is kept in
docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import http.client
import socket
import sys
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import apsw

sys.path.insert(0, str(Path(__file__).parent))

import console
import engines
import hooks
import servers
import start
import tokens
import vectors
import workspaces
from measure import COMMON, RARE, MakeRequest, corpus, cpu_seconds, percentile, press, rss_megabytes
from ours import Ours
from ours import Posting as OurPosting
from peer import Peer

CLIENTS = 8
TURNS = 8
"""What is compared is measured in turns, a little of the one and a little of the other: machines have good and bad seconds."""
ROUNDS = 10
WARMING = 3


@dataclass
class Line:
    what: str
    ours: str
    beside: str
    ratio: str
    reach: str
    good: bool


class Pressed:
    """What came of pressing a server, a few seconds at a time."""

    def __init__(self, server: Ours | Peer, make: MakeRequest) -> None:
        self.server, self._make = server, make
        self._cpu = self._seconds = 0.0
        self.created: list[str] = []
        self.statuses: Counter[int] = Counter()

    def press(self, seconds: float) -> None:
        before = cpu_seconds(self.server.pid)
        got = press(self.server.url, self._make, clients=CLIENTS, seconds=seconds)
        self._cpu += cpu_seconds(self.server.pid) - before
        self._seconds += got.seconds
        self.created += got.created
        self.statuses += got.statuses

    @property
    def ms(self) -> float:
        return self._cpu / max(1, len(self.created)) * 1000

    @property
    def rate(self) -> float:
        return len(self.created) / self._seconds

    @property
    def lost(self) -> int:
        return len(self.server.lost(self.created))

    @property
    def bad(self) -> int:
        return sum(count for status, count in self.statuses.items() if status != 201)


def posting(seconds: float) -> list[Line]:
    """Posts over REST, each on disk before its answer; in turns."""
    with Ours() as one, Peer() as other:
        ours = Pressed(one, OurPosting(tuple(one.create_thread(f"bench {n}") for n in range(CLIENTS))))
        theirs = Pressed(other, other.posting([other.create_thread(f"bench {n}") for n in range(CLIENTS)]))
        for _ in range(TURNS // 2):
            for pressed in (ours, theirs):
                pressed.press(seconds * 2 / TURNS)
        lost, their_lost = ours.lost, theirs.lost
    ratio = theirs.ms / ours.ms
    return [
        Line("posts per CPU second, 8 clients", f"{1000 / ours.ms:.0f}", f"peer {1000 / theirs.ms:.0f}",
             f"{ratio:.1f} ×", "≥ 5 ×", ratio >= 5),
        Line("posts per second", f"{ours.rate:.0f}", f"peer {theirs.rate:.0f}", f"{ours.rate / theirs.rate:.1f} ×", "", True),
        Line("acknowledged and lost", f"{lost}", f"peer {their_lost}", "", "0", lost == 0),
        Line("refused or failed", f"{ours.bad}", f"peer {theirs.bad}", "", "0", ours.bad == 0),
    ]  # fmt: skip


def bare(raw: apsw.Connection, match: str) -> list[float]:
    """The engine's own milliseconds for the same question: ranked, top 50, ids only."""
    sql = "SELECT rowid FROM passage_index WHERE passage_index MATCH ? ORDER BY rank LIMIT 50"
    times = []
    for _ in range(5):
        began = time.perf_counter()
        raw.execute(sql, (match,)).fetchall()
        times.append((time.perf_counter() - began) * 1000)
    return times


def searching(messages: int) -> list[Line]:
    lines = []
    with ExitStack() as stack:
        ours = stack.enter_context(Ours(corpus(messages)))
        thread = ours.client.get("/api/search", params={"q": COMMON}).json()["results"][0]["thread_id"]
        raw = apsw.Connection(str(ours.database), flags=apsw.SQLITE_OPEN_READONLY)
        scope = raw.execute("SELECT id FROM documents WHERE native_id = ?", (thread,)).get
        questions = {
            "a rare word": (RARE, f'exact : "{RARE}"', ""),
            "a word in 30 %": (COMMON, f'exact : "{COMMON}"', ""),
            "two words": (f"{COMMON} {RARE}", f'exact : ("{COMMON}" AND "{RARE}")', ""),
            "a prefix": (f"{RARE[:5]}*", f'exact : "{RARE[:5]}" *', ""),
            "in one thread": (COMMON, f'exact : "{COMMON}" AND scope : "§d{scope}"', f"&thread_id={thread}"),
        }
        for name, (q, match, where) in questions.items():
            engine: list[float] = []
            times: list[float] = []
            for _ in range(TURNS):
                engine += bare(raw, match)
                times += timed(ours.port, f"/api/search?q={quote(q)}{where}")
            alone, p95 = percentile(engine, 50), percentile(times, 95)
            reach = 3 * alone + 3
            lines.append(
                Line(f"search, {name}: p50 / p95 ms", f"{percentile(times, 50):.1f} / {p95:.1f}",
                     f"bare engine {alone:.1f}", f"{p95 / alone:.1f} ×", f"≤ {reach:.1f} ms", p95 <= reach)
            )  # fmt: skip
        raw.close()
        peer = stack.enter_context(Peer(preload=corpus(messages)))
        lines += beside(ours, peer)
        lines += starting(ours)
    return lines


def beside(ours: Ours, peer: Peer) -> list[Line]:
    """The same question to both, in turns: the median of the answers, and the processor time on the server's side."""
    path = f"/api/search?q={COMMON}"
    times: dict[int, list[float]] = {}
    spent: dict[int, float] = {}
    for _ in range(TURNS):
        for one in (ours, peer):
            before = cpu_seconds(one.pid)
            times.setdefault(one.pid, []).extend(timed(one.port, path))
            spent[one.pid] = spent.get(one.pid, 0) + cpu_seconds(one.pid) - before
    our_cpu, their_cpu = (spent[one.pid] / TURNS / (ROUNDS + WARMING) * 1000 for one in (ours, peer))
    our_ms, their_ms = (percentile(times[one.pid], 50) for one in (ours, peer))
    return [
        Line("search, a word in 30 %: CPU ms", f"{our_cpu:.1f}", f"peer {their_cpu:.1f}",
             f"{their_cpu / our_cpu:.1f} ×", "", True),
        Line("search, a word in 30 %: p50 ms", f"{our_ms:.1f}", f"peer {their_ms:.1f}", f"{their_ms / our_ms:.1f} ×",
             "≥ 10 ×", their_ms / our_ms >= 10),
    ]  # fmt: skip


def timed(port: int, path: str, rounds: int = ROUNDS) -> list[float]:
    """Milliseconds of each answer, over one connection, after a few to warm up; the client adds as little as can be."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    times = []
    for round in range(rounds + WARMING):
        began = time.perf_counter()
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200
        if round >= WARMING:
            times.append((time.perf_counter() - began) * 1000)
    connection.close()
    return times


def starting(ours: Ours) -> list[Line]:
    ours.stop()
    seconds = sorted(_restart(ours) for _ in range(3))[1]
    listeners = [_listener(ours.port) for _ in range(100)]
    for _ in range(50):
        ours.client.get("/api/search", params={"q": COMMON})
    rss = rss_megabytes(ours.pid)
    for listener in listeners:
        listener.close()
    return [
        Line("start to the first answer, s", f"{seconds:.2f}", "", "", "< 2", seconds < 2),
        Line("resident memory, 100 listeners, MB", f"{rss:.0f}", "", "", "< 150", rss < 150),
    ]


def _restart(ours: Ours) -> float:
    if ours._process.poll() is None:
        ours.stop()
    return ours.start()


def _listener(port: int) -> socket.socket:
    listening = socket.create_connection(("127.0.0.1", port))
    listening.sendall(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert b"200" in listening.recv(1024)
    return listening


def main() -> int:
    ask = argparse.ArgumentParser(description=__doc__)
    whats = ("speed", "tokens", "hooks", "start", "vectors", "servers", "workspaces", "console")
    ask.add_argument("what", nargs="?", choices=whats, default="speed")
    ask.add_argument("--messages", type=int, default=100_000)
    ask.add_argument("--seconds", type=float, default=10)
    ask.add_argument("--count", type=int, default=2_000, help="how many workspaces")
    ask.add_argument("--only", choices=("posting", "searching"))
    ask.add_argument("--engine", choices=("sqlite", "postgres", "both"), default="sqlite",
                     help="with postgres or both: palaver on PostgreSQL beside palaver on SQLite")  # fmt: skip
    given, others = ask.parse_known_args()
    if others and given.what != "servers":
        ask.error(f"unknown: {' '.join(others)}")
    if given.engine != "sqlite":
        return engines.compare(given.messages, given.seconds)
    if given.what == "tokens":
        return tokens.main()
    if given.what == "hooks":
        return hooks.main()
    if given.what == "start":
        return start.main()
    if given.what == "servers":
        return servers.main()
    if given.what == "vectors":
        return vectors.main()
    if given.what == "console":
        return console.main()
    if given.what == "workspaces":
        return workspaces.main(given.count)
    lines = []
    if given.only != "searching":
        lines += posting(given.seconds)
    if given.only != "posting":
        lines += searching(given.messages)
    print("| what | palaver | compared with | ratio | target | met |\n|---|---|---|---|---|---|")
    for line in lines:
        print(
            f"| {line.what} | {line.ours} | {line.beside} | {line.ratio} | {line.reach} | {'✓' if line.good else '✗'} |"
        )
    return 0 if all(line.good for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
