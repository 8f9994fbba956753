"""`make bench ARGS=tokens`: the tokens that palaver and two peers put into a model's context, counted with o200k_base.

Measured are the list of tools, which a client sends with every conversation, the answer to `bus_connect` in a thread
with fifty short messages, and answers of `knowledge_search`. Each peer runs in a virtual environment of its own under
`.bench/`.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.helpers import Mcp
from tests.library_items import SOURCES, Library
from tests.tokens import compact, count_tokens, tool_tokens

from ours import Ours
from peer import CACHE, Peer

MESSAGES = [f"task {number:02} ok." for number in range(1, 51)]
BASIC_MEMORY = "basic-memory==0.23.1"
"""The newest version that could be installed where this was written: 0.24 requires a certifi newer than its index had."""


class NotMeasured(Exception):
    """Why there is no figure."""


# Talking to a server


class Stdio:
    """An MCP client over standard input and output that keeps the answers as they came."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process, self._ids = process, 0
        about = {"name": "bench", "version": "1"}
        self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=about)
        self._send({"method": "notifications/initialized"})

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._ids += 1
        self._send({"id": self._ids, "method": method, "params": params})
        assert self._process.stdout
        for line in self._process.stdout:
            if line.startswith("{") and (answer := json.loads(line)).get("id") == self._ids:
                return dict(answer["result"])
        raise NotMeasured(f"the server ended before it answered {method}")


@contextmanager
def over_stdio(command: Sequence[str | Path], env: dict[str, str], folder: Path) -> Iterator[Stdio]:
    with (folder / "stdio.log").open("ab") as log:
        process = subprocess.Popen(
            command, env=env, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        yield Stdio(process)
    finally:
        process.terminate()
        process.communicate(timeout=30)


def mcp_of(client: httpx.Client, query: str) -> Mcp:
    try:
        return Mcp(client, f"/mcp{query}")
    except AssertionError as problem:
        raise NotMeasured(f"the server does not know {query}") from problem


# Counting


@dataclass(frozen=True)
class Listed:
    """A list of tools: how many there are, and their tokens without and with output schemas."""

    tools: int
    tokens: int
    with_output: int

    @classmethod
    def of(cls, result: dict[str, Any]) -> Listed:
        tools = result["tools"]
        return cls(len(tools), sum(map(tool_tokens, tools)), sum(tool_tokens(tool, output=True) for tool in tools))


@dataclass(frozen=True)
class Connected:
    """An answer to bus_connect. Tokens are those of its text, which the model reads; bytes are those of the result."""

    tokens: int
    size: int
    around: float
    """Tokens around the text of one message."""

    @classmethod
    def of(cls, full: dict[str, Any], empty: dict[str, Any]) -> Connected:
        tokens = _text_tokens(full)
        of_texts = count_tokens(MESSAGES)
        return cls(tokens, len(compact(full).encode()), (tokens - _text_tokens(empty) - of_texts) / len(MESSAGES))


def _text_tokens(result: dict[str, Any]) -> int:
    return count_tokens(item["text"] for item in result["content"])


# Measuring


def ours_listed(ours: Ours, query: str) -> Listed:
    listed = Listed.of(mcp_of(ours.client, query).ask("tools/list"))
    if not listed.tools:
        raise NotMeasured("this version has no such group of tools")
    return listed


def ours_connected(ours: Ours, query: str) -> Connected:
    """By an agent that joins a thread in which another one has written."""
    topic = f"bench {query}"
    writer = Mcp(ours.client)
    joined = _connect(writer, topic)
    thread_id = json.loads(joined["content"][0]["text"])["thread"]["thread_id"]
    empty = _connect(mcp_of(ours.client, query), topic)
    for text in MESSAGES:
        writer.ask("tools/call", name="msg_post", arguments={"thread_id": thread_id, "content": text})
    full = _connect(mcp_of(ours.client, query), topic)
    assert MESSAGES[-1] in full["content"][0]["text"]
    return Connected.of(full, empty)


def _connect(mcp: Mcp | Stdio, topic: str) -> dict[str, Any]:
    arguments = {"thread_name": topic, "ide": "bench", "model": "bench"}
    return mcp.ask("tools/call", name="bus_connect", arguments=arguments)


SHORT = "The exporter writes Parquet files since version two, and CSV only on request."
DOORS = {"`/mcp?tools=core`": "?tools=core", "`/mcp`": "", "`/mcp?answers=full`": "?answers=full"}
AGENT = "claude-code-exporter"


def fill_for_searches(ours: Ours) -> None:
    """One short text in each source, and thirty longer ones with another word: notes, threads and sessions."""
    library = Library(ours.client)
    for source in SOURCES:
        if source == "sessions":
            session = str(uuid4())
            library.turn(AGENT, "Which formats do we write?", session, id=str(uuid4()))
            library.turn(AGENT, f"{SHORT} only{source}", session, role="assistant", id=str(uuid4()))
        else:
            library.put_in(source, f"{SHORT} only{source}")
    long = f"{SHORT} It was slow before: the readers had to look at every row, and the disks were busy. " * 5
    for number in range(10):
        library.note(f"pagetest {number}. {long}", title=f"Formats of the exporter, part {number}")
        thread = library.post("/api/threads", topic=f"formats {number}")
        path = f"/api/threads/{thread['id']}/messages"
        library.post(path, author="Ada", content=f"pagetest {number}. {long}")
        library.turn(AGENT, f"pagetest {number}. {long}", str(uuid4()), role="assistant", id=str(uuid4()))


def searches(ours: Ours) -> Iterator[str]:
    """The rows of the table: a page, and one short result of each source, by every door."""
    clients = [mcp_of(ours.client, f"{query}{'&' if query else '?'}agent={AGENT}") for query in DOORS.values()]

    def search(client: Mcp, word: str) -> dict[str, Any]:
        return client.ask("tools/call", name="knowledge_search", arguments={"query": word, "dedupe": False})

    pages = [search(client, "pagetest") for client in clients]
    counts = [len(page["structuredContent"]["results"]) for page in pages]
    cells = [f"{_text_tokens(page):,} ({count} results)" for page, count in zip(pages, counts, strict=True)]
    yield f"a page, 30 matching documents | {' | '.join(cells)}"
    for source in SOURCES:
        found = [search(client, f"only{source}")["structuredContent"]["results"] for client in clients]
        yield f"a short result in {source} | {' | '.join(str(count_tokens(compact(hits[0]))) for hits in found)}"


def peer_figures() -> tuple[Listed, Connected]:
    with Peer() as peer:
        environment, folder = peer._environment, Path(peer._folder.name)
        with over_stdio([peer._bin / "agentchatbus-stdio"], environment, folder) as mcp:
            listed = Listed.of(mcp.ask("tools/list"))
            thread_id = peer.create_thread("bench")
            empty = _connect(mcp, "bench")
            for text in MESSAGES:
                peer.post(peer.client, thread_id, text)
            full = _connect(mcp, "bench")
            assert MESSAGES[-1] in full["content"][0]["text"]
            return listed, Connected.of(full, empty)


def basic_memory_listed() -> Listed:
    program = _basic_memory()
    with tempfile.TemporaryDirectory(prefix="palaver-bench-") as home:
        environment = os.environ | {"HOME": home, "BASIC_MEMORY_HOME": f"{home}/notes", "BASIC_MEMORY_NO_PROMOS": "1"}
        with over_stdio([program, "mcp"], environment, Path(home)) as mcp:
            return Listed.of(mcp.ask("tools/list"))


def _basic_memory() -> Path:
    """Its program; installed when it is not there yet."""
    home = CACHE / "basic-memory"
    complete = home / "complete"
    if not complete.exists() or complete.read_text() != BASIC_MEMORY:
        print(f"installing {BASIC_MEMORY} (once)", file=sys.stderr)
        pip = [str(home / "bin/python"), "-m", "pip", "install", "-qq", "--disable-pip-version-check", BASIC_MEMORY]
        try:
            subprocess.run([_python_312(), "-m", "venv", "--clear", home], check=True, timeout=120)
            subprocess.run(pip, check=True, timeout=600)
        except (subprocess.SubprocessError, OSError) as problem:
            raise NotMeasured(f"{BASIC_MEMORY} could not be installed") from problem
        complete.write_text(BASIC_MEMORY)
    return home / "bin" / "basic-memory"


def _python_312() -> str:
    """A Python of at least 3.12, which basic-memory needs."""
    if sys.version_info >= (3, 12):
        return sys.executable
    known = [shutil.which(name) for name in ("python3.12", "python3.13")]
    known += sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.1[2-9].*/bin/python")))
    for python in filter(None, known):
        # The shims of pyenv are there for every version and fail for those that are not selected.
        if subprocess.run([python, "-c", ""], capture_output=True).returncode == 0:
            return python
    raise NotMeasured("basic-memory needs Python 3.12 or newer, and there is none on this machine")


# The table


def main() -> int:
    with Ours() as ours:
        rows = [
            ("tools, `/mcp?tools=core`", _tools(lambda: ours_listed(ours, "?tools=core"))),
            ("tools, `/mcp`", _tools(lambda: ours_listed(ours, ""))),
            ("tools, `/mcp?tools=all`", _tools(lambda: ours_listed(ours, "?tools=all"))),
            ("tools with output schemas, `?tools=core&schemas=output`",
             _tools(lambda: ours_listed(ours, "?tools=core&schemas=output"), output=True)),
            ("tools with output schemas, `?schemas=output`",
             _tools(lambda: ours_listed(ours, "?schemas=output"), output=True)),
            ("tools with output schemas, `?tools=all&schemas=output`",
             _tools(lambda: ours_listed(ours, "?tools=all&schemas=output"), output=True)),
            ("`bus_connect`, 50 short messages", _answer(lambda: ours_connected(ours, ""))),
            ("`bus_connect`, 50 short messages, `?answers=full`", _answer(lambda: ours_connected(ours, "?answers=full"))),
        ]  # fmt: skip
        fill_for_searches(ours)
        print(f"| search, text of {count_tokens(SHORT)} tokens | {' | '.join(DOORS)} |\n|---|---|---|---|")
        for row in searches(ours):
            print(f"| {row} |")
    print(f"\n{len(MESSAGES)} messages: {sum(map(len, MESSAGES))} characters, {count_tokens(MESSAGES)} tokens\n")
    print("| palaver | tools | tokens | bytes | overhead a message |\n|---|---|---|---|---|")
    for name, cells in rows:
        print(f"| {name} | {cells} |")
    print("\n| peer | tools | tokens | bytes | overhead a message |\n|---|---|---|---|---|")
    listed, connected = peer_figures()
    print(f"| AgentChatBus 0.2.2, tools | {_tools(lambda: listed)} |")
    print(f"| AgentChatBus 0.2.2, `bus_connect`, 50 short messages | {_answer(lambda: connected)} |")
    found = _tools(basic_memory_listed)
    print(f"| {BASIC_MEMORY.replace('==', ' ')}, tools | {found} |")
    return 0


def _tools(measure: Any, *, output: bool = False) -> str:
    try:
        listed: Listed = measure()
    except NotMeasured as why:
        return f"not measured: {why} | | |"
    return f"{listed.tools} | {listed.with_output if output else listed.tokens:,} | | "


def _answer(measure: Any) -> str:
    try:
        connected: Connected = measure()
    except NotMeasured as why:
        return f"not measured: {why} | | |"
    return f" | {connected.tokens:,} | {connected.size:,} | {connected.around:.0f}"


if __name__ == "__main__":
    sys.exit(main())
