"""How a workspace behaves while it grows: `python tests/bench/growth.py --minutes 30 --out growth.json`.

Fills a workspace with the made-up passages of million.py and stops at 100,000, 300,000, 1, 3 and 10 million, until the
time is over. At each stop it measures the size, questions, a common word, a prefix, and posts while questions are asked.
With `--copies 3` the passages are copied three times in the end, inside of PostgreSQL, and measured again. This is much
faster than making them up. The frequency of each word stays the same, and texts are there several times. `--go-on` uses
a database that was filled before. `--plot growth.json … --svg growth.svg` draws the results of several runs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from math import log10
from pathlib import Path
from typing import Any

import psutil
import psycopg

sys.path.insert(0, str(Path(__file__).parent))

from measure import percentile
from million import Language, fill, some_passage
from palaver.app import App
from palaver.model.people import Caller
from palaver.operations.bus.messages import PostMessage, post_message
from palaver.operations.bus.threads import CreateThread, create_thread
from palaver.operations.search.bus_search import SearchMessages, search_messages
from palaver.operations.search.knowledge import SearchKnowledge, search_knowledge
from palaver.settings import load
from palaver.store.engines.postgres.plan import BLOCK, LARGE_BLOCK
from palaver.store.workspaces import Workspace

STOPS = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
ROUNDS = 12
POSTING_SECONDS = 8.0
POSTERS = 4
CALLER = Caller("human")
AGENT = Caller("agent", "rook", agent_id="00000000-0000-0000-0000-000000000001")
"""It may not read the sessions of other agents."""


async def grow(here: Workspace, language: Language, made: int, number: int, most: int, end: float) -> tuple[int, int]:
    """Add documents until there are `most` passages or the time is over. Returns how many passages and documents."""
    async with here.bulk_writes():
        while made < most and time.monotonic() < end:
            pile = []
            for _ in range(100):
                texts = list(language.document(language.dice.randint(5, 60)))
                pile.append((number, texts))
                made, number = made + len(texts), number + 1
            await here.change(partial(fill, pile=pile))
    return made, number


class Meter:
    """Measures milliseconds of waiting, of palaver's processor time, and of the database server's."""

    def __init__(self, url: str, postmaster: int) -> None:
        self._postmaster = postmaster
        self._title = f" {psycopg.conninfo.conninfo_to_dict(url).get('dbname')} [local]" if url else ""

    def server(self) -> float:
        """The processor time of the connections to this database. Autovacuum and other processes of PostgreSQL are left out."""
        total = 0.0
        for process in psutil.Process(self._postmaster).children() if self._postmaster else ():
            with suppress(psutil.Error):
                if self._title in " ".join(process.cmdline()):
                    total += process.cpu_times().user + process.cpu_times().system
        return total

    async def each(self, asks: Sequence[Callable[[], Awaitable[Any]]]) -> dict[str, float]:
        elapsed, spent, before = [], [], self.server()
        for ask in asks:
            clock, cpu = time.monotonic(), time.process_time()
            await ask()
            elapsed.append((time.monotonic() - clock) * 1000)
            spent.append((time.process_time() - cpu) * 1000)
        found = {"p50": percentile(elapsed, 50), "p95": percentile(elapsed, 95)}
        found |= {"cpu_p50": percentile(spent, 50), "cpu_p95": percentile(spent, 95)}
        return found | {"server_cpu": (self.server() - before) / len(asks) * 1000}


async def post_while_searched(here: Workspace, questions: list[str], thread_id: str) -> dict[str, float]:
    """Posts a second of some clients, while another one asks questions."""
    end, times = time.monotonic() + POSTING_SECONDS, list[float]()

    async def post() -> None:
        while time.monotonic() < end:
            clock = time.monotonic()
            await post_message.perform(here, CALLER, PostMessage(thread_id=thread_id, content="shall we meet at noon?"))
            times.append((time.monotonic() - clock) * 1000)

    async def ask() -> None:
        while time.monotonic() < end:
            for question in questions:
                await search_knowledge.work(here, CALLER, SearchKnowledge(query=question, dedupe=False))
                if time.monotonic() >= end:
                    return

    await asyncio.gather(ask(), *(post() for _ in range(POSTERS)))
    return {"a_second": len(times) / POSTING_SECONDS, "p95": percentile(times, 95)}


def sizes(url: str, home: Path) -> dict[str, float]:
    """Megabytes on disk, in all and of the largest parts."""
    if not url:
        return {"all": sum(file.stat().st_size for file in home.rglob("*.db*")) / 2**20}
    with psycopg.connect(url) as raw:
        rows = raw.execute(
            "SELECT relname, pg_total_relation_size(c.oid) / 1048576.0 FROM pg_class c JOIN pg_namespace n"
            " ON n.oid = relnamespace WHERE nspname = 'workspace_default' AND relkind IN ('r', 'i')"
            " ORDER BY 2 DESC LIMIT 6"
        ).fetchall()
        whole = raw.execute("SELECT pg_database_size(current_database()) / 1048576.0").fetchone()
    return {"all": float(whole[0] if whole else 0), **{name: float(size) for name, size in rows}}


async def measure(here: Workspace, url: str, made: int, count: int, meter: Meter) -> dict[str, Any]:
    if url:
        with psycopg.connect(url, autocommit=True) as raw:  # as autovacuum does within a minute
            raw.execute("SET search_path = workspace_default")
            raw.execute("VACUUM (ANALYZE) passage_index")
            raw.execute("ANALYZE passages, documents")
    language = Language()
    choose = partial(some_passage, dice=language.dice, passages=min(made, 100_000))
    questions = [language.question(await here.read(choose)) for _ in range(count)]
    thread = await create_thread.perform(here, CALLER, CreateThread(topic=f"growth {made}"))

    def question(text: str, caller: Caller = CALLER) -> Callable[[], Awaitable[Any]]:
        return lambda: search_knowledge.work(here, caller, SearchKnowledge(query=text, dedupe=False))

    def words(text: str) -> Callable[[], Awaitable[Any]]:
        asked = SearchMessages(query=text, as_you_type=True)
        return lambda: here.read(lambda read: search_messages.work(read, CALLER, asked))

    found: dict[str, Any] = {"passages": made, "megabytes": sizes(url, here.settings.data)}
    await meter.each([question(text) for text in questions[:10]])
    found["question"] = await meter.each([question(text) for text in questions])
    found["question of an agent"] = await meter.each([question(text, AGENT) for text in questions])
    for name, text in {"common word": "because", "beginning of a word": "bec", "two words": "because people"}.items():
        await meter.each([words(text)] * 3)
        found[name] = await meter.each([words(text)] * ROUNDS)
    found["posts"] = await post_while_searched(here, questions, thread.id)
    found["resident"] = psutil.Process().memory_info().rss / 2**20
    return found


COPY = """
SET search_path = workspace_default; SET session_replication_role = replica; SET maintenance_work_mem = '1GB';
CREATE TEMP TABLE last AS SELECT (SELECT max(id) FROM documents) AS d, (SELECT max(id) FROM passages) AS p;
DROP INDEX passage_index_words; DROP INDEX passage_trigrams_gin;
INSERT INTO documents
SELECT id + k * d, source,
       CASE WHEN native_id ~ '^[0-9]+$' THEN native_id || lpad(CAST(k AS text), 6, '0') ELSE native_id || '-' || k END, title, agent_id, created_at + k, modified_at + k, version, deleted_at,
       data
FROM last, generate_series(1, {copies}) k, documents WHERE id <= d;
INSERT INTO passages
SELECT id + k * p, document_id + k * d, position, native_id || '-' || k, field, role, author, author_id, text,
       created_at, data
FROM last, generate_series(1, {copies}) k, passages WHERE id <= p;
INSERT INTO passage_index
SELECT passage_id + k * p, length,
       ts_delete(words, ARRAY['§block' || passage_id / {block}, '§largeblock' || passage_id / {large}, '§d' || document_id])
       || array_to_tsvector(ARRAY['§block' || (passage_id + k * p) / {block},
                                  '§largeblock' || (passage_id + k * p) / {large}, '§d' || (document_id + k * d)]),
       tokens, stems
FROM last, generate_series(1, {copies}) k, passage_index JOIN passages ON id = passage_id WHERE passage_id <= p;
INSERT INTO passage_trigrams
SELECT passage_id + k * p, trigrams, created_at FROM last, generate_series(1, {copies}) k, passage_trigrams WHERE passage_id <= p;
CREATE INDEX passage_index_words ON passage_index USING gin (words);
CREATE INDEX passage_trigrams_gin ON passage_trigrams USING gin (trigrams);
SELECT setval(pg_get_serial_sequence('passages', 'id'), (SELECT max(id) FROM passages));
SELECT setval(pg_get_serial_sequence('documents', 'id'), (SELECT max(id) FROM documents));
DELETE FROM passage_totals; INSERT INTO passage_totals SELECT count(*), sum(length) FROM passage_index;
"""


async def add_copies(url: str, out: Path, count: int, copies: int, postmaster: int) -> None:
    """Copy all passages inside of PostgreSQL, and measure."""
    stops = json.loads(out.read_text())["stops"] if out.exists() else []
    with psycopg.connect(url, autocommit=True) as raw, tempfile.TemporaryDirectory() as home:
        if copies:
            raw.execute(COPY.format(copies=copies, block=BLOCK, large=LARGE_BLOCK).encode())
        made = raw.execute("SELECT count(*) FROM workspace_default.passages").fetchone()
        app = App(load({"home": Path(home), "database_url": url, "model": "words", "search_timeout": 60.0}))
        stops.append(await measure(await app.open(), url, made[0] if made else 0, count, Meter(url, postmaster)))
        await app.close()
    out.write_text(json.dumps({"engine": "PostgreSQL", "stops": stops}, indent=1))
    print(json.dumps(stops[-1]), file=sys.stderr, flush=True)


async def run(home: Path, url: str, most: int, minutes: float, count: int, out: Path, postmaster: int) -> None:
    app, end = (
        App(load({"home": home, "database_url": url, "model": "words", "search_timeout": 60.0})),
        time.monotonic() + minutes * 60,
    )
    here, meter, language = await app.open(), Meter(url, postmaster), Language()
    made, number, stops = 0, 0, list[dict[str, Any]]()
    for stop in STOPS:
        clock, cpu, before = time.monotonic(), time.process_time(), made
        made, number = await grow(here, language, made, number, min(stop, most), end)
        rate = (made - before) / (time.monotonic() - clock)
        print(f"{made:,} passages, {rate:,.0f} a second, with making them up", file=sys.stderr, flush=True)
        stops.append({"rate": rate, "cpu": time.process_time() - cpu, **await measure(here, url, made, count, meter)})
        out.write_text(json.dumps({"engine": "PostgreSQL" if url else "SQLite", "stops": stops}, indent=1))
        print(json.dumps(stops[-1]), file=sys.stderr, flush=True)
        if made < stop or made >= most or time.monotonic() > end:
            break
    await app.close()


# The plot

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 720, 380, 64, 72, 40
COLOURS = {"PostgreSQL": "#3b82c4", "SQLite": "#d9822b"}
LINES = {"question": "", "common word": "6 4"}


def plot(runs: Sequence[dict[str, Any]], svg: Path) -> None:
    """Draw the processor time of questions and of a common word over the number of passages, both axes logarithmic."""
    points = [
        (
            run["engine"],
            kind,
            [(stop["passages"], stop[kind]["cpu_p50"] + stop[kind]["server_cpu"]) for stop in run["stops"]],
        )
        for run in runs
        for kind in LINES
    ]
    most = max(passages for *_, some in points for passages, _ in some)
    first, last = log10(90_000), log10(most * 1.2)
    low, high = log10(2), log10(max(200, *(ms * 1.3 for *_, some in points for _, ms in some)))

    def place(passages: float, ms: float) -> tuple[float, float]:
        x = LEFT + (log10(passages) - first) / (last - first) * (WIDTH - LEFT - 16)
        return x, HEIGHT - BOTTOM - (log10(ms) - low) / (high - low) * (HEIGHT - BOTTOM - TOP)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">',
        # One grey for text and lines that can be read on white and on black.
        "<style>text{fill:#7a828c}.axis{stroke:#7a828c}.grid{stroke:#7a828c;stroke-opacity:.3}</style>",
        f'<text x="{LEFT}" y="20">Milliseconds of processor time, palaver and database, by number of passages</text>',
    ]
    for ms in (2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000):
        if low <= log10(ms) <= high:
            _, y = place(most, ms)
            parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - 16}" y1="{y:.0f}" y2="{y:.0f}"/>')
            parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.0f}" text-anchor="end">{ms:,}</text>')
    for passages in sorted({passages for *_, some in points for passages, _ in some}):
        x, _ = place(passages, 10)
        said = f"{passages / 1e6:.1f} M" if passages >= 950_000 else f"{passages / 1000:.0f} k"
        parts.append(f'<text x="{x:.0f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{said}</text>')
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - 16}" y1="{HEIGHT - BOTTOM}" y2="{HEIGHT - BOTTOM}"/>')
    for number, (engine, kind, some) in enumerate(points):
        colour, dashes = COLOURS[engine], f' stroke-dasharray="{LINES[kind]}"' if LINES[kind] else ""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in some))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"{dashes}/>')
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y in (place(*point) for point in some)
        ]
        x, y = LEFT + number // 2 * 260, HEIGHT - 30 + number % 2 * 20
        parts.append(f'<line x1="{x}" x2="{x + 24}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="3"{dashes}/>')
        parts.append(f'<text x="{x + 32}" y="{y + 4}">{engine}, {kind}</text>')
    svg.write_text("\n".join([*parts, "</svg>\n"]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgres", metavar="URL", default="", help="use this empty database; else SQLite")
    parser.add_argument("--postmaster", type=int, default=0, help="process id of PostgreSQL, to measure its time")
    parser.add_argument("--most", type=int, default=STOPS[-1])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--copies", type=int, default=0)
    parser.add_argument("--go-on", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("growth.json"))
    parser.add_argument("--plot", type=Path, nargs="+")
    parser.add_argument("--svg", type=Path, default=Path("growth.svg"))
    given = parser.parse_args()
    if given.plot:
        plot([json.loads(file.read_text()) for file in given.plot], given.svg)
    else:
        url, out, count, postmaster = given.postgres, given.out, given.questions, given.postmaster
        if not given.go_on:
            with tempfile.TemporaryDirectory() as home:
                asyncio.run(run(Path(home), url, given.most, given.minutes, count, out, postmaster))
        if given.copies or given.go_on:
            asyncio.run(add_copies(url, out, count, given.copies, postmaster))
