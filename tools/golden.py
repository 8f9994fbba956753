"""Check that answers did not change: record the answers of one checkout, and compare those of another with them.

    .venv/bin/python tools/golden.py record DIR [--engine postgres]
    .venv/bin/python tools/golden.py compare DIR [--engine postgres]

`record` fills a workspace with the demo, the labelled conversations of tests/quality, notes, threads and sessions, and
makes a backup of it. Then a person, an agent with sessions and an agent without any ask hundreds of questions at a
server. `compare` restores the backup with the code of its own checkout, asks the same, and prints what is different.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
os.environ["PALAVER_MODEL"] = "words"

from tests.conftest import postgres_server  # noqa: E402
from tests.helpers import EVERYTHING, Mcp, Server, Thread, start_server, started  # noqa: E402

WORKSPACE = "golden"
BACKUP, ANSWERS, TOKENS = "backup.tar", "answers.jsonl", "tokens.json"
CALLERS = {
    "person": ("--human=anna", "read,write,admin"),
    "agent": ("--agent=rook", "read,write"),
    "stranger": ("--agent=stranger", "read"),
}
VARIANTS: list[dict[str, Any]] = [
    {},
    {"highlight": True},
    {"counts": True, "limit": 10, "offset": 5},
    {"order_by": "recent"},
    {"as_you_type": True, "snippet_length": 80},
    {"shape": "compact", "sources": ["chats", "bus", "sessions", "notes"]},
    {"max_tokens": 800, "project": "*"},
    {"time_zone": "America/New_York", "date_from": "2025-06-01"},
]
"""Further arguments of searches, in turn."""
QUESTIONS = """
sync storm|what did Rook measure?|longest pause setting|who reviewed the fix of the sync storm?|release notes 2.4
why was search slow on Monday?|"nightly rebuild"|from:Rook index|from:anna|in:"Lantern 2.4: what is left" jitter
source:notes rebuild|source:sessions test|project:lantern search|has:code|has:link|before:yesterday index|dark theme
-from:kite notes|school district Wednesday|what happened yesterday?|what did we decide last week?|two weeks ago
since Monday|before last Friday|in the last three days|what was said after the release?|rebild indx|highlite|bookmarks
Lantern|lantern*|postmortem|p99|sync.longest_pause|random.uniform|def pause|uniform(0, min(30|Wren accessibility
secret of the harbour|varnish budget|Lesezeichen|notes de version|книга|発売|qzxv|the|what about it?|""|a b c|-
who wrote the notes for 2.4?|how many clients gave up?|when did school start?|is the suite green?|how long is the pause?
which retries come back at the same instant?|prompts for reviews|character of a librarian|video about lighthouses|book
after:"last week"|this morning|contrast|from:nobody x|tag it"""
"""Questions about the demo, besides the labelled ones of tests/quality."""
COMPLETED = [("from", "r"), ("in", "l"), ("source", ""), ("project", ""), ("before", ""), ("has", ""), ("from", "zz")]


def serving(home: Path, url: str) -> AbstractContextManager[Server]:
    return start_server(home, PALAVER_DATABASE_URL=url, PALAVER_AUTH="token", PALAVER_LOG_LEVEL="error")


def run(home: Path, url: str, *args: str) -> str:
    done = started(home, *args, PALAVER_DATABASE_URL=url)
    if done.returncode:
        sys.exit(f"palaver {args[0]} failed: {done.stderr}")
    return done.stdout.strip()


# Recording


async def add_conversations(home: Path, url: str) -> list[tuple[str, str]]:
    """Put the labelled conversations into the workspace. Returns their questions, with the times of asking."""
    import evaluate
    from palaver.app import App
    from palaver.settings import Settings

    app, asked = App(Settings(home=home, database_url=url)), []
    try:
        here = await app.create_workspace(WORKSPACE)
        files = [evaluate.read(ROOT / "tests/quality" / name) for name in ("questions.jsonl", "test.jsonl.gz")]
        for world in [world for some in evaluate.with_own_ids(files) for world in some]:
            await evaluate.add_conversations(here, world)
            few = world.asked if len(world.asked) < 30 else world.asked[::4]
            asked += [(one.question, one.as_of.isoformat()) for one in few if one.as_of]
    finally:
        await app.close()
    return asked


def add_more(server: Server, token: str) -> None:
    """Add notes, threads with messages for people only, and sessions of two agents, over REST."""
    with server.client(headers={"authorization": f"Bearer {token}"}) as api:
        for n in range(12):
            words = f"Varnish for boat {n}: two coats, then {n * 7} hours in the harbour shed."
            api.post("/api/notes", json={"title": f"Boat {n}", "content": words, "keywords": ["boat", f"n{n}"]})
        for n in range(6):
            thread = Thread(api, f"Harbour budget {n}")
            thread.post(f"The varnish budget of pier {n} is {n}00 euros. Is that enough?", author="Ben")
            secret = {"visibility": "human_only"}
            thread.post(f"The secret of the harbour is {n} barrels of varnish.", author="Anna", metadata=secret)
            thread.post("Decision: we buy one coat less.", author="Anna", metadata={"decision_type": "decision"})
        for agent in ("rook", "wren"):
            for n in range(8):
                path = f"/api/v1/agents/{agent}/sessions/{agent}-{n}/messages"
                said = [("user", f"Please test the varnish sensor {n}."), ("assistant", f"Sensor {n} fails at {n}0 C.")]
                for role, content in [*said, ("user", "Then fix `sensor.read()` and note it in harbour.md.")]:
                    project = f"/home/anna/{'lantern' if n % 2 else 'harbour'}"
                    api.post(path, json={"role": role, "content": content, "project": project}).raise_for_status()


def request(caller: str, method: str, path: str, /, **body: Any) -> dict[str, Any]:
    return {"caller": caller, "method": method, "path": path, "body": body}


def requests_of(asked: list[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    """Everything that is asked, as method, path and arguments."""
    evening = (datetime.now(UTC) + timedelta(hours=1)).isoformat(timespec="seconds")
    whole = [(text, evening) for text in re.split(r"[|\n]", QUESTIONS.strip())] + asked
    for caller in CALLERS:
        ask = partial(request, caller)
        for n, (query, as_of) in enumerate(whole):
            when = {"query": query, "as_of": as_of, "time_zone": "UTC"}
            more = when | VARIANTS[n % len(VARIANTS)]
            yield ask("POST", "/api/knowledge/search", explain=True, dedupe=False, **more)
            if n % 4 == 0:
                yield ask("GET", "/api/knowledge/context", **when)
                yield ask("GET", "/api/search", q=query)
                yield ask("POST", "/api/v1/conversations/search/all", query=query, limit=8)
                yield ask("MCP", "knowledge_search", dedupe=False, **when)
        for operator, begin in COMPLETED:
            yield ask("GET", "/api/knowledge/complete", operator=operator, text=begin)


def openings_of(found: list[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    """Requests that open results, in three ways."""
    for n, (caller, uri) in enumerate(found):
        mode = ("snippet", "chunk", "chunk_with_siblings")[n % 3]
        yield request(caller, "POST", "/api/knowledge/get", uri=uri, retrieval={"mode": mode})


def record(folder: Path, home: Path, url: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    print("adding conversations …", flush=True)
    asked = asyncio.run(add_conversations(home, url))
    run(home, url, "demo", "--workspace", WORKSPACE)
    create = partial(run, home, url, "token", "create", "--workspace", WORKSPACE)
    tokens = {caller: create(who, "--scope", scopes) for caller, (who, scopes) in CALLERS.items()}
    (folder / TOKENS).write_text(json.dumps(tokens))
    with serving(home, url) as server:
        add_more(server, tokens["person"])
    (folder / BACKUP).unlink(missing_ok=True)
    run(home, url, "backup", str(folder / BACKUP))
    with serving(home, url) as server:
        answers = list(answered(server, tokens, list(requests_of(asked))))
        found = [
            (one["caller"], item["uri"])
            for one in answers
            if one["method"] == "MCP"
            for item in one["answer"]["results"]
        ]
        answers += answered(server, tokens, list(openings_of(found)))
    (folder / ANSWERS).write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in answers))
    print(f"{len(answers):,} answers are in {folder / ANSWERS}")
    print(dict(Counter(f"{one['method']} {one['path']} {one['status']}" for one in answers)))


# Asking and comparing


def answered(server: Server, tokens: dict[str, str], requests: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The requests with their answers."""
    with server.client() as api:
        core = EVERYTHING.replace("all", "core").replace("full", "compact")
        agents = {caller: Mcp(api, core, token) for caller, token in tokens.items()}
        for n, one in enumerate(requests):
            if n % 100 == 0:
                print(f"{n:,} of {len(requests):,} asked", end="\r", flush=True)
            headers = {"authorization": f"Bearer {tokens[one['caller']]}"}
            place = "json" if one["method"] == "POST" else "params"
            if one["method"] == "MCP":
                answer = agents[one["caller"]].answer(one["path"], one["body"])
                status, text = int(answer.is_error), json.dumps(answer.value)
            else:
                options = {place: one["body"], "headers": headers}
                response = api.request(one["method"], one["path"], **options)
                status, text = response.status_code, response.text
            yield one | {"status": status, "answer": without_chance(text.replace(server.url, "http://server"))}
    print(f"{len(requests):,} of {len(requests):,} asked")


def without_chance(text: str) -> Any:
    """An answer without what is random: the marks around texts, and ids of search sessions."""
    body = json.loads(re.sub(r"\[(data|end of data) [0-9a-f]{8}", r"[\1 MARK", text))
    if isinstance(body, dict):
        body.pop("session_id", None)
    return body


def differences(old: Any, new: Any, where: str = "") -> Iterator[str]:
    """The places where two answers differ, as sentences. Numbers may differ by 1e-9."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from differences(old.get(key, "(missing)"), new.get(key, "(missing)"), f"{where}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for n, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from differences(one, other, f"{where}[{n}]")
    elif isinstance(old, float) and isinstance(new, (int, float)) and abs(old - new) <= 1e-9:
        return
    elif old != new:
        yield f"{where}: {json.dumps(old, ensure_ascii=False)[:200]} → {json.dumps(new, ensure_ascii=False)[:200]}"


def compare(folder: Path, home: Path, url: str, every: int) -> int:
    """Ask again. Returns how many answers are different."""
    run(home, url, "restore", str(folder / BACKUP))
    recorded = [json.loads(line) for line in (folder / ANSWERS).read_text("utf-8").split("\n")[:-1:every]]
    asked = [{key: one[key] for key in ("caller", "method", "path", "body")} for one in recorded]
    places, different = Counter[str](), 0
    with serving(home, url) as server:
        tokens = json.loads((folder / TOKENS).read_text())
        for old, new in zip(recorded, answered(server, tokens, asked), strict=True):
            if found := list(differences(old, new)):
                different += 1
                places.update({re.sub(r"\[\d+\]", "[]", one.split(": ")[0]) for one in found})
                print(f"\n{old['caller']}: {old['method']} {old['path']} {json.dumps(old['body'], ensure_ascii=False)}")
                print("\n".join(f"    {one}" for one in found[:8]))
    print(f"{different:,} of {len(recorded):,} answers are different.", *places.most_common(20), sep="\n  ")
    return different


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["record", "compare"])
    parser.add_argument("folder", type=Path, metavar="DIR", help="where the backup and the answers are")
    parser.add_argument("--engine", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="compare only every Nth answer")
    given = parser.parse_args()
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="golden-")))
        is_postgres = given.engine == "postgres"
        url = str(stack.enter_context(postgres_server()).get_uri()) if is_postgres else f"sqlite:///{home}"
        if given.action == "record":
            record(given.folder.resolve(), home, url)
        elif compare(given.folder.resolve(), home, url, given.every):
            sys.exit(1)


if __name__ == "__main__":
    main()
