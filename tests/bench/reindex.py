"""How fast the index of sessions is rebuilt, on both engines: `python tests/bench/reindex.py --turns 40000`.

The index is empty at first, then complete. Both are measured, in turns. Processor time is palaver's and the server's.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from engines import postgres
from measure import corpus, cpu_seconds
from palaver.app import App
from palaver.model.ids import new_id
from palaver.model.sessions import Owner, Turn
from palaver.operations.sessions.session_index import reindex
from palaver.settings import load
from palaver.store.workspaces import Workspace

TURNS_OF_SESSION = 200
BEGAN = datetime(2025, 1, 1, tzinfo=UTC)


def record(here: Workspace, count: int) -> None:
    owner, texts = Owner(new_id(), "bot", "bot"), list(corpus(count))
    for first in range(0, count, TURNS_OF_SESSION):
        session = f"s{first}"
        turns = [
            Turn(new_id(), session, owner.id, "user" if n % 2 else "assistant", text, at := BEGAN + timedelta(minutes=n), at)
            for n, text in enumerate(texts[first : first + TURNS_OF_SESSION], first)
        ]  # fmt: skip
        here.transcripts.append(owner, session, turns)


async def measure(count: int) -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other, postgres() as server:
        places = {"PostgreSQL": (Path(one), server.url), "SQLite": (Path(other), "")}
        print("| engine | index | turns a second | µs of CPU a turn, palaver / server |\n|---|---|---|---|")
        apps = {}
        for name, (home, url) in places.items():
            apps[name] = App(load({"home": home, "database_url": url, "model": "words"}))
            record(await apps[name].open(), count)
        for index in ("new", "complete"):
            for name, app in apps.items():
                here = await app.open()
                clock, cpu, before = time.monotonic(), time.process_time(), cpu_seconds(server.pid)
                assert (await reindex(here)).turns == count
                spent, servers = time.process_time() - cpu, cpu_seconds(server.pid) - before
                rate = count / (time.monotonic() - clock)
                print(f"| {name} | {index} | {rate:,.0f} | {spent / count * 1e6:.0f} / {servers / count * 1e6:.0f} |")
        for app in apps.values():
            await app.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=40_000)
    asyncio.run(measure(parser.parse_args().turns))
