"""The floor plan, checked: a room imports only from rooms below it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import palaver

HOUSE = Path(palaver.__file__).parent

# What each room may import of palaver, besides itself. `palaver` alone is the version in `__init__.py`.
MAP: dict[str, frozenset[str]] = {
    "palaver": frozenset(),
    "errors": frozenset(),
    "text": frozenset(),
    "model": frozenset({"errors", "text"}),
    "settings": frozenset({"errors"}),
    "importers": frozenset({"text", "model"}),
    "store": frozenset({"text", "model", "errors", "settings"}),
    "search": frozenset({"store", "text", "model", "errors", "settings"}),
    "operations": frozenset({"search", "store", "importers", "text", "model", "errors", "settings", "palaver"}),
    "app": frozenset({"operations", "search", "store", "text", "model", "errors", "settings"}),
    "doors": frozenset({"app", "operations", "search", "text", "model", "errors", "settings", "palaver"}),
    "client": frozenset(
        {"palaver", "errors", "settings"}
    ),  # for those who ask a server from Python: it knows no other room
    "__main__": frozenset({"doors"}),
}

# Doors take a Workspace by the hand and give it to operations; they look at nothing in it. Each line is one file and
# the one name it needs, so that a second one is a decision and not a habit.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("doors/visit.py", "store.workspaces.Workspace"): "a visit says in which workspace one is",
    ("doors/cli/sessions.py", "store.workspaces.Workspace"): "a command says in which workspace it works",
    ("doors/http/sse.py", "store.bus.feed.FeedClosed"): "how a listener learns that the house closes",
}


class Import(NamedTuple):
    file: str
    line: int
    name: str

    @property
    def from_room(self) -> str:
        return self.file.partition("/")[0].removesuffix(".py").replace("__init__", "palaver")

    @property
    def room(self) -> str:
        return self.name.partition(".")[0]


def imports_of(file: str, source: str) -> Iterator[Import]:
    """Every name of palaver a file imports, wherever in it: `from palaver.store import agents` is `store.agents`."""
    package = ["palaver", *file.split("/")[:-1]]
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names):
                found = [alias.name for alias in names]
            case ast.ImportFrom(module, names, level):
                start = package[: len(package) - level + 1] if level else []
                found = [".".join([*start, *([module] if module else []), alias.name]) for alias in names]
            case _:
                continue
        for name in found:
            if name == "palaver" or name.startswith("palaver."):
                yield Import(file, node.lineno, _inside(name))


def _inside(name: str) -> str:
    """Without the leading `palaver.`; what is defined in the package itself is `palaver.…`."""
    rest = name.removeprefix("palaver").removeprefix(".")
    return rest if rest.partition(".")[0] in MAP else f"palaver.{rest}"


def all_imports() -> list[Import]:
    files = sorted(path.relative_to(HOUSE).as_posix() for path in HOUSE.rglob("*.py"))
    return [found for file in files for found in imports_of(file, (HOUSE / file).read_text("utf-8"))]


def against_the_map(found: Import) -> bool:
    return found.room != found.from_room and found.room not in MAP[found.from_room]


def test_every_file_stands_in_a_room_of_the_map():
    rooms = {path.relative_to(HOUSE).as_posix().partition("/")[0].removesuffix(".py") for path in HOUSE.rglob("*.py")}
    assert {room.replace("__init__", "palaver") for room in rooms} <= set(MAP)


def test_rooms_import_only_from_rooms_below_them():
    wrong = [
        f"{found.file}:{found.line} imports {found.name}"
        for found in all_imports()
        if against_the_map(found) and (found.file, found.name) not in EXCEPTIONS
    ]
    assert wrong == []


def test_the_exceptions_are_still_needed():
    used = {(found.file, found.name) for found in all_imports() if against_the_map(found)}
    assert set(EXCEPTIONS) <= used, "an exception that nobody needs any more can go"


@pytest.mark.parametrize("noun", ["importers", "text", "model"])
def test_the_pure_rooms_do_no_input_or_output(noun: str):
    """No database, no network, no processes. (Importers read the file they are given, and nothing else.)"""
    far = {"apsw", "sqlite3", "psycopg", "socket", "httpx", "subprocess", "asyncio", "anyio", "starlette", "uvicorn"}
    if noun == "importers":
        far -= {"apsw", "sqlite3"}  # some exports are databases
    for path in sorted((HOUSE / noun).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.partition(".")[0] for name in names} & far, f"{path.name}:{getattr(node, 'lineno', 0)}"


@pytest.mark.parametrize(
    "file, source",
    [
        ("text/tokenize.py", "from palaver.model import times"),
        ("text/tokenize.py", "import palaver.store.engines.database"),
        ("model/messages.py", "from palaver import store"),
        ("model/messages.py", "def later():\n    from palaver.settings import load"),
        ("store/bus/events.py", "from palaver.operations import messages"),
        ("store/bus/events.py", "from ...doors import http"),
        ("store/bus/events.py", "from palaver.app import House"),
        ("operations/search/bus_search.py", "from palaver.doors.http.rest import error"),
        ("doors/http/rest.py", "from palaver.store.engines.database import Change"),
        ("store/bus/threads.py", "from palaver.search import recall"),
        ("importers/chats/chatgpt.py", "from palaver.errors import Invalid"),
    ],
)
def test_an_import_from_a_room_above_is_seen(file: str, source: str):
    assert any(against_the_map(found) for found in imports_of(file, source))
