"""What was asked for comes first: by keywords, in every source and through every search."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Mapping
from itertools import product

import pytest
from tests.store.bus import Bus, opened

from palaver.operations.library import notes
from palaver.operations.search import bus_search, knowledge
from palaver.operations.sessions import recording, searching
from palaver.search.snippet import BEGIN, CUT, END
from palaver.settings import Settings

some = random.Random()

STATES = ["merged", "opened", "closed", "blocked", "reviewed", "reverted", "deployed", "assigned"]
PEOPLE = ["ann", "bob", "carol", "dave", "erin", "frank"]


def made_up() -> str:
    return "".join(some.choice("bdfgklmnprstvz") + some.choice("aeiou") for _ in range(3))


def tickets() -> Mapping[str, str]:
    """Queries, and the text each asks for."""
    asked, numbers = {}, list(range(300, 330))
    for number, state in product(numbers, STATES[:2]):
        asked[f"POL-{number} {state}"] = f"POL-{number} {state} by {some.choice(PEOPLE)}"
    return asked


def named() -> Mapping[str, str]:
    names = sorted({made_up() for _ in range(24)})
    return {
        f"{name} {state}": f"the {name} service was {state} by {some.choice(PEOPLE)}"
        if state == "deployed"
        else f"{name} {state} this morning"
        for name in names
        for state in ("deployed", "reverted")
    }


def versions() -> Mapping[str, str]:
    asked = {}
    for major, minor in product(range(1, 5), range(5)):
        asked[f"release {major}.{minor}.0"] = f"release {major}.{minor}.0 is out, thanks to everybody who helped"
        asked[f"v{major}.{minor}.1 hotfix"] = f"v{major}.{minor}.1 hotfix went out at noon; the notes come later"
    return asked


def paths() -> Mapping[str, str]:
    asked = {}
    for room, file in product(("app", "lib", "core", "web"), range(5)):
        asked[f"src/{room}/mod{file}.py failed"] = f"FAIL src/{room}/mod{file}.py failed with exit code {file % 3}"
        asked[f"src/{room}/mod{file}.py passed again"] = (
            f"src/{room}/mod{file}.py passed again after a fix of mod{file}"
        )
    return asked


def keywords() -> Mapping[str, str]:
    """Two to four words that stand side by side in one text, and scattered over many others."""
    words = [made_up() for _ in range(40)]
    asked = {}
    for number in range(60):
        phrase = " ".join(some.sample(words, 2 + number % 3))
        rest = some.sample(words, 6)
        asked[phrase] = f"{rest[0]} {rest[1]} {phrase} {rest[2]} {' '.join(rest[3:])}"
    texts = list(asked.values())
    return {phrase: text for phrase, text in asked.items() if sum(phrase in one for one in texts) == 1}


SETS: Mapping[str, Callable[[], Mapping[str, str]]] = {
    "tickets": tickets,
    "names": named,
    "versions": versions,
    "paths": paths,
    "keywords": keywords,
}


DOORS = ("all", "bus", "notes", "sessions", "conversations", "messages")


@pytest.fixture(params=sorted(SETS))
async def asked(request: pytest.FixtureRequest, settings: Settings) -> AsyncIterator[tuple[Bus, Mapping[str, str]]]:
    """A workspace that has these texts, each once as a message, as a note and as a turn."""
    some.seed(11)
    wanted = SETS[request.param]()
    texts = sorted({*wanted.values(), "deploy deploy deploy", "limit your rate of coffee", "merged merged merged"})
    some.shuffle(texts)
    async with opened(settings) as bus:
        await bus.posts(await bus.thread("status"), texts)
        for text in texts:
            await bus.do(notes.create_note, title="status", content=text)
            await bus.do(recording.record_turn, agent="bot", session="one", role="assistant", content=text)
        yield bus, wanted


def bare(snippet: str) -> str:
    """A text without the marks around its matches."""
    return snippet.translate(dict.fromkeys(map(ord, BEGIN + END + CUT))).strip()


@pytest.mark.thorough("postgres")
async def test_by_keywords_the_right_text_comes_first(asked: tuple[Bus, Mapping[str, str]]):
    bus, wanted = asked

    async def first_of(source: str, query: str) -> str:
        if source == "messages":
            found = await bus.do(bus_search.search_messages, query=query, limit=1)
            return bare(found.results[0].snippet) if found.results else ""
        if source == "conversations":
            request = searching.SearchOwnConversations(query=query, limit=1)
            turns = await bus.here.read(lambda read: searching.find(read, request, [searching.TURNS]))
            return turns.hits[0].content if turns.hits else ""
        sources = None if source == "all" else [source]
        answer = await bus.do(knowledge.search_knowledge, query=query, sources=sources, limit=1, snippet_length=1000)
        return answer.results[0].snippet.replace("…", "").strip() if answer.results else ""

    wrong = list[tuple[str, str, str]]()
    asked_by = [  # Each query through two searches, which take turns: both of a pair come from other parts of the code.
        (DOORS[(number + step) % len(DOORS)], query) for step in (0, 3) for number, query in enumerate(wanted)
    ]
    for source, query in asked_by:
        if (found := await first_of(source, query)) != wanted[query]:
            wrong.append((source, query, found))
    assert len(wrong) <= 0.02 * len(asked_by), f"{len(wrong)} of {len(asked_by)}: {wrong[:10]}"
