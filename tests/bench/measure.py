"""What every measurement needs: a text to search, clients that press, and numbers one can read.

Clients run in processes of their own, so that what they cost is never counted as the server's.
"""

from __future__ import annotations

import http.client
import json
import math
import multiprocessing
import queue
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any
from urllib.parse import urlsplit

import psutil

COMMON, RARE = "harbour", "quicksilver"  # in 30 % and in 0.1 % of the corpus


def corpus(count: int, seed: int = 7) -> Iterator[str]:
    """Messages of 8 to 60 words whose frequencies fall off as in real speech; the same on every run."""
    dice = random.Random(seed)
    syllables = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "er", "il")]
    words = ["".join(dice.choices(syllables, k=dice.randint(1, 4))) for _ in range(20_000)]
    cumulative = list(accumulate(1 / rank for rank in range(1, len(words) + 1)))
    for number in range(count):
        said = dice.choices(words, cum_weights=cumulative, k=dice.randint(8, 60))
        if number % 10 < 3:
            said.insert(dice.randrange(len(said)), COMMON)
        if number % 1000 == 0:
            said.insert(dice.randrange(len(said)), RARE)
        yield " ".join(said)


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    body: dict[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


# Called with the client's number and the number of its request. It is sent to other processes, so it must be
# a module's function, a functools.partial or a dataclass with __call__.
MakeRequest = Callable[[int, int], Request]


@dataclass(frozen=True)
class Answers:
    """What all clients got, put together. A status of 0 is a connection that failed."""

    seconds: float
    latencies: list[float]
    statuses: Counter[int]
    created: list[str]  # the ids that were acknowledged with 201

    @property
    def per_second(self) -> float:
        """Answers with a status of 2xx, per second."""
        return sum(count for status, count in self.statuses.items() if 200 <= status < 300) / self.seconds


def press(url: str, make: MakeRequest, *, clients: int = 8, seconds: float = 5.0, most: int = 100_000) -> Answers:
    """Let each client, a process with one kept-alive connection, ask again as soon as it is answered."""
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(clients)
    results: multiprocessing.Queue[_Client] = context.Queue()
    workers = [
        context.Process(target=_ask, args=(url, make, number, seconds, most, together, results), daemon=True)
        for number in range(clients)
    ]
    for worker in workers:
        worker.start()
    try:
        deadline = time.monotonic() + seconds + 60
        done = [results.get(timeout=max(0.1, deadline - time.monotonic())) for _ in workers]
        for worker in workers:
            worker.join(timeout=10)
    except queue.Empty:
        raise TimeoutError(f"not all of {clients} clients came back within {seconds + 60:.0f} s") from None
    finally:
        for worker in workers:
            if worker.is_alive():
                worker.kill()
    return Answers(
        seconds=max(one.seconds for one in done),
        latencies=[latency for one in done for latency in one.latencies],
        statuses=sum((one.statuses for one in done), Counter()),
        created=[id for one in done for id in one.created],
    )


@dataclass
class _Client:
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    created: list[str] = field(default_factory=list)


def _ask(url: str, make: MakeRequest, client: int, seconds: float, most: int, together: Any, results: Any) -> None:
    # http.client and not httpx: on a small machine a costly client takes the server's processor away.
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "127.0.0.1", address.port, timeout=30)
    mine = _Client()
    together.wait(timeout=60)
    start = time.perf_counter()
    for number in range(most):
        request = make(client, number)
        body = None if request.body is None else json.dumps(request.body)
        asked = time.perf_counter()
        if asked - start >= seconds:
            break
        try:
            connection.request(
                request.method, request.path, body, {"content-type": "application/json", **request.headers}
            )
            response = connection.getresponse()
            content, status = response.read(), response.status
        except (OSError, http.client.HTTPException):
            connection.close()  # the next request opens it again
            mine.statuses[0] += 1
            time.sleep(0.01)
            continue
        mine.latencies.append(time.perf_counter() - asked)
        mine.statuses[status] += 1
        if status == 201:
            mine.created.append(str(json.loads(content)["id"]))
        elif status >= 500:
            connection.close()  # many servers hang up after an error, without saying so
    mine.seconds = time.perf_counter() - start
    connection.close()
    results.put(mine)


def cpu_seconds(pid: int) -> float:
    """Processor time of a process and all its children so far, also of those that have ended."""
    total = 0.0
    for process in _family(pid):
        with suppress(psutil.NoSuchProcess):  # it ended just now
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def rss_megabytes(pid: int) -> float:
    """Resident memory of a process and its children; pages they share are counted in each."""
    return sum(process.memory_info().rss for process in _family(pid)) / 2**20


def _family(pid: int) -> list[psutil.Process]:
    parent = psutil.Process(pid)
    return [parent, *parent.children(recursive=True)]


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least so many percent of the values do not exceed."""
    if not values:
        return math.nan
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def table(rows: Mapping[str, Sequence[float]]) -> str:
    """Latencies, given in seconds, as lines of milliseconds."""
    width = max((len(name) for name in rows), default=0)
    lines = [f"{'ms':<{width}} {'n':>8} {'p50':>9} {'p95':>9} {'p99':>9} {'max':>9}"]
    for name, values in rows.items():
        cells = (f"{percentile(values, percent) * 1000:9.2f}" for percent in (50, 95, 99, 100))
        lines.append(f"{name:<{width}} {len(values):>8} {' '.join(cells)}")
    return "\n".join(lines)
