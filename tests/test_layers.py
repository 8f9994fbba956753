"""Layers: each package imports only from the layers below it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

import palaver

ROOT = Path(palaver.__file__).parent

# The layers that each layer may import, besides itself. `palaver` alone is the version in `__init__.py`.
ALLOWED: dict[str, frozenset[str]] = {
    "palaver": frozenset(),
    "errors": frozenset(),
    "child_process": frozenset(),
    "text": frozenset(),
    "model": frozenset({"errors", "text"}),
    "settings": frozenset({"errors"}),
    "importers": frozenset({"text", "model"}),
    "setup": frozenset(
        {"model", "errors", "settings", "child_process"}
    ),  # edits the settings of clients; knows no data of palaver
    "synced_files": frozenset(),
    "store": frozenset({"text", "model", "errors", "settings", "synced_files"}),
    "search": frozenset({"store", "text", "model", "errors", "settings", "child_process"}),
    "operations": frozenset(
        {"search", "store", "importers", "text", "model", "errors", "settings", "child_process", "palaver"}
    ),
    "app": frozenset({"operations", "search", "store", "text", "model", "errors", "settings"}),
    "doors": frozenset(
        {
            *("app", "setup", "operations", "search", "text"),
            *("model", "errors", "settings", "synced_files", "child_process", "client", "palaver"),
        }
    ),
    "client": frozenset({"palaver", "errors", "settings"}),  # the Python client only talks to a server
    "__main__": frozenset({"doors"}),
}

# Doors pass a Workspace on to operations and do not look inside it. Each exception is one file and one name.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("doors/authentication.py", "store.workspaces.Workspace"): "a requester has a workspace",
    ("doors/cli/connection.py", "store.workspaces.Workspace"): "a command opens a workspace",
    ("doors/http/sse.py", "store.bus.feed.FeedClosed"): "tells a listener that the server closes",
}


class Import(NamedTuple):
    file: str
    line: int
    name: str

    @property
    def from_layer(self) -> str:
        return self.file.partition("/")[0].removesuffix(".py").replace("__init__", "palaver")

    @property
    def layer(self) -> str:
        return self.name.partition(".")[0]


def imports_of(file: str, source: str) -> Iterator[Import]:
    """Every name that a file imports from palaver: `from palaver.store import agents` is `store.agents`."""
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
    """The name without the leading `palaver.`; names of the package itself keep it."""
    rest = name.removeprefix("palaver").removeprefix(".")
    return rest if rest.partition(".")[0] in ALLOWED else f"palaver.{rest}"


def all_imports() -> list[Import]:
    files = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))
    return [found for file in files for found in imports_of(file, (ROOT / file).read_text("utf-8"))]


def breaks_the_layers(found: Import) -> bool:
    return found.layer != found.from_layer and found.layer not in ALLOWED[found.from_layer]


def test_every_file_belongs_to_a_layer():
    layers = {path.relative_to(ROOT).as_posix().partition("/")[0].removesuffix(".py") for path in ROOT.rglob("*.py")}
    assert {layer.replace("__init__", "palaver") for layer in layers} <= set(ALLOWED)


def test_layers_import_only_from_layers_below_them():
    wrong = [
        f"{found.file}:{found.line} imports {found.name}"
        for found in all_imports()
        if breaks_the_layers(found) and (found.file, found.name) not in EXCEPTIONS
    ]
    assert wrong == []


START_FAST: dict[str, frozenset[str]] = {
    "doors/hook.py": frozenset({"child_process", "model", "text"}),
    "doors/local/server_socket.py": frozenset({"doors.hook", "palaver", "settings"}),
    "doors/local/mcp_pipe.py": frozenset({"doors.local.server_socket", "errors", "palaver"}),
}
"""What the programs that clients wait for may import."""


@pytest.mark.parametrize("file", START_FAST)
def test_programs_that_clients_wait_for_import_little(file: str):
    found = {one.name for one in all_imports() if one.file == file}
    assert [name for name in found if not any(f"{name}.".startswith(f"{one}.") for one in START_FAST[file])] == []


def circles() -> list[list[str]]:
    """The groups of files that import each other, also inside functions. Imports for type checkers do not count."""
    files = {path.relative_to(ROOT).as_posix(): path for path in ROOT.rglob("*.py")}
    graph = {file: {place for one in _run_imports(file, path) if (place := _file_of(one, files))} - {file}
             for file, path in files.items()}  # fmt: skip
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as found:
        return [found.args[1]]
    return []


def _run_imports(file: str, path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    return (found.name for found in imports_of(file, ast.unparse(tree)))


def _file_of(name: str, files: Mapping[str, Path]) -> str | None:
    """The file that defines an imported name."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        place = "/".join(parts[:end])
        if found := next((file for file in (f"{place}.py", f"{place}/__init__.py") if file in files), None):
            return found
    return None


def test_no_files_import_each_other():
    assert circles() == []


def test_every_class_has_a_name_of_its_own():
    files = [ast.parse(path.read_text("utf-8")) for path in ROOT.rglob("*.py")]
    names = Counter(node.name for file in files for node in file.body if isinstance(node, ast.ClassDef))
    assert [name for name, count in names.items() if count > 1] == []


def test_the_exceptions_are_still_needed():
    used = {(found.file, found.name) for found in all_imports() if breaks_the_layers(found)}
    assert set(EXCEPTIONS) <= used, "remove exceptions that are not needed any more"


@pytest.mark.parametrize("layer", ["importers", "text", "model"])
def test_the_pure_layers_do_no_input_or_output(layer: str):
    """No database, no network, no processes. (Importers read the file they are given, and nothing else.)"""
    far = {"apsw", "sqlite3", "psycopg", "socket", "httpx", "subprocess", "asyncio", "anyio", "starlette", "uvicorn"}
    if layer == "importers":
        far -= {"apsw", "sqlite3"}  # some exports are databases
    for path in sorted((ROOT / layer).rglob("*.py")):
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
        ("store/bus/events.py", "from palaver.app import App"),
        ("operations/search/bus_search.py", "from palaver.doors.http.rest import error"),
        ("doors/http/rest.py", "from palaver.store.engines.database import Change"),
        ("store/bus/threads.py", "from palaver.search import recall"),
        ("importers/chats/chatgpt.py", "from palaver.errors import Invalid"),
    ],
)
def test_an_import_from_a_layer_above_is_found(file: str, source: str):
    assert any(breaks_the_layers(found) for found in imports_of(file, source))


@pytest.mark.parametrize("names", [("mcp", "mcp_types"), ("numpy", "onnxruntime")])
def test_the_server_starts_without_what_takes_long_to_import(names: tuple[str, ...]):
    """The MCP SDK is loaded in the background, the libraries of the model with the first question."""
    code = f"import palaver.doors.http.server, sys; assert not set({names}) & sys.modules.keys()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
