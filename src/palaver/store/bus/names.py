"""The names of a workspace: agents, people and programs share them, and no two are called alike."""

from __future__ import annotations

from collections.abc import Collection
from itertools import count

from palaver.errors import Conflict
from palaver.model.people import PROGRAM_TITLES
from palaver.store.engines.database import Change, Reader
from palaver.text.folded_names import fold, is_written_alike, keys_of

EVERYBODY, ONLINE = "all", "here"
"""Mentions of everybody in a thread, and of every agent that is online."""
RESERVED = frozenset(
    {EVERYBODY, ONLINE, "everybody", "everyone", "nobody", "human", "me", "you", "system", "palaver", "channel"}
)
WEBHOOK = "(webhook)"
"""Ends the names under which incoming webhooks post. No agent and no person has such a name."""
_PROGRAMS = {fold(name): program for program, title in PROGRAM_TITLES.items() for name in (program, title)}
PEOPLE = "human:"
AGENTS = "agent:"


def program_called(name: str) -> str | None:
    """The short name of the client program with this name."""
    return _PROGRAMS.get(_key_of(name))


def is_reserved(name: str, program: str = "") -> bool:
    """Whether a name is never that of a single agent: a word like `all`, or the name of another client program."""
    key = _key_of(name)
    return key in RESERVED or key.endswith(WEBHOOK) or _PROGRAMS.get(key, program) != program


def holder_of(read: Reader, name: str, *, exactly: bool = False) -> str | None:
    """Who has or had this name: 'agent:ID' or 'human:NAME'. None: nobody, or an agent of before this was stored.

    `exactly`: a name that only looks like it is another one. Case does not count.
    """
    key = _key_of(name)
    row = read.one("name", key=key)
    if row is None or (exactly and not is_written_alike(row["name"], name.removeprefix("@"))):
        return None
    return row["holder"] if _key_of(row["name"]) == key else None


def is_taken(change: Change, name: str, *, by: str = "", programs: Collection[str] | None = None) -> bool:
    """Whether somebody else than `by` is called like this. `programs` are the client programs whose names are free for
    it; None for all of them."""
    for key in map(_key_of, keys_of(name)):
        row = change.one("name", key=key)
        if row and row["holder"] != by:
            return True
        if (key in RESERVED or key.endswith(WEBHOOK)) and not (key == "human" and by.startswith(PEOPLE)):
            return True
        if programs is not None and _PROGRAMS.get(key, "") not in ("", *programs):
            return True
    agent = change.one("agent", id=name)
    return agent is not None and by != AGENTS + agent["id"]


def free(change: Change, name: str, joint: str = " ", *, by: str = "", programs: Collection[str] | None = None) -> str:
    """The name, or the name with the first free number from 2 on."""
    _take_known(change)
    if not is_taken(change, name, by=by, programs=programs):
        return name
    key = _key_of(name)
    taken = {row["key"] for row in change.all("names_from", first=f"{key}-", last=f"{key}-~")}
    numbered = (f"{name}{joint}{number}" for number in count(2) if f"{key}-{number}" not in taken)
    return next(one for one in numbered if not is_taken(change, one, by=by, programs=programs))


def must_be_free(
    change: Change, name: str, joint: str = " ", *, by: str = "", programs: Collection[str] | None = None
) -> None:
    other = free(change, name, joint, by=by, programs=programs)
    if other != name:
        raise Conflict(f"'{name}' is taken. '{other}' is free.")


def take(change: Change, holder: str, *names: str | None) -> None:
    """Keep these names for their holder. Those that are taken stay with the one who has them."""
    for name in names:
        for key in keys_of(name) if name else ():
            change.run("take_name", key=_key_of(key), name=name, holder=holder)


def take_for_people(change: Change, people: Collection[str]) -> None:
    for person in people:
        take(change, PEOPLE + person, person)


def _take_known(change: Change) -> None:
    """Keep the names of agents that came before names were kept, or from transcripts."""
    for row in change.all("agents_without_names"):
        change.run("take_name", key=AGENTS + row["id"], name=row["id"], holder=AGENTS + row["id"])
        take(change, AGENTS + row["id"], row["slug"], row["name"], row["display_name"])


def _key_of(name: str) -> str:
    """The folded name. Reactions and marks write 'human:ann' for Ann, so that this is her name too."""
    key = fold(name)
    return key.removeprefix(PEOPLE).removeprefix(AGENTS) or key
