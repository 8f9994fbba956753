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
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import apsw

sys.path.insert(0, str(Path(__file__).parent))

from measure import COMMON, RARE, corpus, cpu_seconds, percentile, press, rss_megabytes
from ours import Ours
from ours import Posting as OurPosting
from peer import Peer

CLIENTS = 8
ROUNDS = 40
WARMING = 5


@dataclass
class Line:
    what: str
    ours: str
    beside: str
    ratio: str
    reach: str
    good: bool


def posting(seconds: float) -> list[Line]:
    """Posts over REST, each on disk before its answer."""
    with Ours() as ours:
        threads = [ours.create_thread(f"bench {n}") for n in range(CLIENTS)]
        before = cpu_seconds(ours.pid)
        got = press(ours.url, OurPosting(tuple(threads)), clients=CLIENTS, seconds=seconds)
        our_ms = (cpu_seconds(ours.pid) - before) / max(1, len(got.created)) * 1000
        our_lost, our_rate = len(ours.lost(got.created)), got.per_second
        our_bad = sum(count for status, count in got.statuses.items() if status != 201)
    with Peer() as peer:
        threads = [peer.create_thread(f"bench {n}") for n in range(CLIENTS)]
        before = cpu_seconds(peer.pid)
        theirs = press(peer.url, peer.posting(threads), clients=CLIENTS, seconds=seconds)
        their_ms = (cpu_seconds(peer.pid) - before) / max(1, len(theirs.created)) * 1000
        their_lost, their_rate = len(peer.lost(theirs.created)), theirs.per_second
    ratio = their_ms / our_ms
    return [
        Line("posts per CPU second, 8 clients", f"{1000 / our_ms:.0f}", f"peer {1000 / their_ms:.0f}",
             f"{ratio:.1f} ×", "≥ 5 ×", ratio >= 5),
        Line("posts per second", f"{our_rate:.0f}", f"peer {their_rate:.0f}", f"{our_rate / their_rate:.1f} ×", "", True),
        Line("acknowledged and lost", f"{our_lost}", f"peer {their_lost}", "", "0", our_lost == 0),
        Line("refused or failed", f"{our_bad}", f"peer {sum(theirs.statuses.values()) - theirs.statuses[201]}", "",
             "0", our_bad == 0),
    ]  # fmt: skip


def bare_ms(database: Path, match: str) -> float:
    """The engine's own time for the same question: ranked, top 50, ids only."""
    raw = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)
    sql = "SELECT rowid FROM passage_index WHERE passage_index MATCH ? ORDER BY rank LIMIT 50"
    times = []
    for _ in range(15):
        began = time.perf_counter()
        raw.execute(sql, (match,)).fetchall()
        times.append(time.perf_counter() - began)
    raw.close()
    return percentile(times, 50) * 1000


def searching(messages: int) -> list[Line]:
    lines = []
    with ExitStack() as stack:
        ours = stack.enter_context(Ours(corpus(messages)))
        thread = ours.client.get("/api/search", params={"q": COMMON}).json()["results"][0]["thread_id"]
        scope = apsw.Connection(str(ours.database), flags=apsw.SQLITE_OPEN_READONLY).execute(
            "SELECT id FROM documents WHERE native_id = ?", (thread,)
        ).get  # fmt: skip
        questions = {
            "a rare word": (RARE, f'exact : "{RARE}"', ""),
            "a word in 30 %": (COMMON, f'exact : "{COMMON}"', ""),
            "two words": (f"{COMMON} {RARE}", f'exact : ("{COMMON}" AND "{RARE}")', ""),
            "a prefix": (f"{RARE[:5]}*", f'exact : "{RARE[:5]}" *', ""),
            "in one thread": (COMMON, f'exact : "{COMMON}" AND scope : "§d{scope}"', f"&thread_id={thread}"),
        }
        for name, (q, match, where) in questions.items():
            bare = bare_ms(ours.database, match)
            times = timed(ours.port, f"/api/search?q={quote(q)}{where}", ROUNDS)
            p95, reach = percentile(times, 95), 3 * bare + 3
            lines.append(
                Line(f"search, {name}: p50 / p95 ms", f"{percentile(times, 50):.1f} / {p95:.1f}",
                     f"bare engine {bare:.1f}", f"{p95 / bare:.1f} ×", f"≤ {reach:.1f} ms", p95 <= reach)
            )  # fmt: skip
        common, our_cpu = with_cpu(ours.pid, ours.port, f"/api/search?q={COMMON}", ROUNDS)
        lines += starting(ours)
    with Peer(preload=corpus(messages)) as peer:
        theirs, their_cpu = with_cpu(peer.pid, peer.port, f"/api/search?q={COMMON}", 15)
    lines.append(
        Line("search, a word in 30 %: processor ms", f"{our_cpu:.1f}", f"peer {their_cpu:.1f}",
             f"{their_cpu / our_cpu:.1f} ×", "", True)
    )  # fmt: skip
    lines.append(
        Line("search, a word in 30 %: p50 ms", f"{common:.1f}", f"peer {theirs:.1f}", f"{theirs / common:.1f} ×",
             "≥ 10 ×", theirs / common >= 10)
    )  # fmt: skip
    return lines


def with_cpu(pid: int, port: int, path: str, rounds: int) -> tuple[float, float]:
    """The median of the answers in milliseconds, and the processor time of each on the server's side."""
    timed(port, path, 1)
    before = cpu_seconds(pid)
    times = timed(port, path, rounds)
    return percentile(times, 50), (cpu_seconds(pid) - before) / (rounds + WARMING) * 1000


def timed(port: int, path: str, rounds: int) -> list[float]:
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
    ask.add_argument("--messages", type=int, default=100_000)
    ask.add_argument("--seconds", type=float, default=10)
    ask.add_argument("--only", choices=("posting", "searching"))
    given = ask.parse_args()
    lines = []
    if given.only != "searching":
        lines += posting(given.seconds)
    if given.only != "posting":
        lines += searching(given.messages)
    print("| what | palaver | beside it | ratio | reach | |\n|---|---|---|---|---|---|")
    for line in lines:
        print(
            f"| {line.what} | {line.ours} | {line.beside} | {line.ratio} | {line.reach} | {'✓' if line.good else '✗'} |"
        )
    return 0 if all(line.good for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
