"""Vectors that are made in the background: which, in which order, by whom, and what happens when something fails.

The model is a small endpoint that answers as OpenAI's does, or the shipped one in its process.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import psutil
import pytest
from tests.helpers import Server, eventually, palaver_command, start_server, started, started_with, word

from palaver.app import App
from palaver.doors.cli import output
from palaver.errors import Invalid, Unavailable
from palaver.model.people import Caller
from palaver.operations.search.knowledge import SearchKnowledge, search_knowledge
from palaver.search.vectors import background, encoders
from palaver.search.vectors import worker as worker_process
from palaver.search.vectors.background import Embedding
from palaver.search.vectors.encoders import CannotEncode
from palaver.search.vectors.worker import VectorWorker
from palaver.settings import Settings, load
from palaver.store.engines.database import Reader
from palaver.store.library import documents
from palaver.store.library.documents import NewPassage
from palaver.store.search import vectors
from palaver.store.workspaces import Workspace

KEY = "sk-nobody-must-see-this"
EVALUATE = Path(__file__).parents[2] / "tools" / "evaluate.py"
BEGIN = datetime(2026, 5, 1, tzinfo=UTC)


@dataclass
class Endpoint:
    url: str = ""
    keys: list[str | None] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    status: int = 200
    meanwhile: Callable[[], None] = lambda: None
    """Called before an answer."""


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    there = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            there.keys.append(self.headers["Authorization"])
            if there.status == 200:
                there.texts += asked["input"]
            there.meanwhile()
            rows = [{"index": n, "embedding": [1.0, len(text), 0.5, 0.1]} for n, text in enumerate(asked["input"])]
            body = json.dumps({"data": rows[::-1], "model": asked["model"]}).encode()
            self.send_response(there.status if self.path == "/v1/embeddings" else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    there.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    Thread(target=server.serve_forever, daemon=True).start()
    yield there
    server.shutdown()
    server.server_close()


@dataclass
class Place:
    """A workspace, and the settings of another process on the same data."""

    here: Workspace
    settings: Settings

    async def document(self, source: str = "notes", title: str | None = None) -> int:
        native_id = word()
        return await self.here.change(
            lambda change: documents.add_document(
                change, source=source, native_id=native_id, title=title, created_at=BEGIN, data={}
            )
        )

    async def add(
        self, document_id: int, text: str, *, source: str = "notes", role: str | None = None, minutes: int | None = None
    ) -> int:
        """Add a passage that was written so many minutes after BEGIN."""
        self._position += 1
        position, created_at = self._position, None if minutes is None else BEGIN + timedelta(minutes=minutes)
        return await self.here.change(
            lambda change: documents.add_passage(
                change, source, NewPassage(document_id, position, word(), text, created_at, role=role)
            )
        )

    async def edit(self, document_id: int, passage_id: int, text: str) -> None:
        await self.here.change(
            lambda change: documents.update_passage(
                change, "notes", passage_id, NewPassage(document_id, 1, "", text, None)
            )
        )

    async def progress(self) -> tuple[int, int]:
        known = await self.here.read(lambda read: vectors.counts(read, encoders.stored_name(self.settings.model)))
        return known.passages, known.vectors

    _position: int = 0


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Place]:
    app = App(settings)
    try:
        yield Place(await app.open(), settings)
    finally:
        await app.close()


@pytest.fixture
def settings(database_url: str, tmp_path: Path, endpoint: Endpoint) -> Settings:
    name = f"openai:{word()}"
    return Settings(home=tmp_path, database_url=database_url, model=name, model_url=endpoint.url, model_key=KEY)


@pytest.fixture
async def place(settings: Settings) -> AsyncIterator[Place]:
    async with opened(settings) as place:
        yield place


# Which passages, and in which order


async def test_typed_text_comes_before_answers_newest_first_and_tool_output_never(place: Place, endpoint: Endpoint):
    note, session, thread = (
        await place.document("notes", "A title"),
        *[await place.document(source, "A title") for source in ("sessions", "bus")],
    )
    await place.add(note, "old note", minutes=1)
    for n, role in enumerate(("user", "assistant", "tool")):
        await place.add(session, f"{role} turn", source="sessions", role=role, minutes=2 + n)
    await place.add(note, "note without a time")
    await place.add(note, "newer note", minutes=6)
    await place.add(thread, "message of an agent", source="bus", role="assistant", minutes=5)
    await place.add(session, "later answer", source="sessions", role="assistant", minutes=9)
    assert await place.progress() == (7, 0)
    assert await background.make_all(place.here) == 7
    assert endpoint.texts == [
        "newer note", "message of an agent", "user turn", "old note", "note without a time", "later answer",
        "assistant turn",
    ]  # fmt: skip
    assert await place.progress() == (7, 7)
    assert set(endpoint.keys) == {f"Bearer {KEY}"}


async def test_a_new_message_is_next_while_old_ones_wait(
    place: Place, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(background, "TOGETHER", 2)
    monkeypatch.setattr(background, "MOST_WAITING", 2)
    note = await place.document()
    for n in range(7):
        await place.add(note, f"old {n}", minutes=n)
    embedding = Embedding(place.settings)
    assert await embedding.go_over(place.here)
    await place.add(note, "new", minutes=100)
    while await embedding.go_over(place.here):
        pass
    assert endpoint.texts == ["old 6", "old 5", "new", "old 4", "old 3", "old 2", "old 1", "old 0"]


async def test_what_a_search_found_is_next_and_has_its_vector_at_the_next_search(
    place: Place, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(background, "TOGETHER", 2)
    monkeypatch.setattr(background, "MOST_WAITING", 4)
    session = await place.document("sessions", "A title")
    for role in ("user", "tool"):
        await place.add(session, f"the {role} painted a harbour", source="sessions", role=role)
    for n in range(9):
        await place.add(session, f"turn {n}", source="sessions", role="user", minutes=1 + n)
    question = SearchKnowledge(query="Who painted the harbour?", dedupe=False, explain=True)
    embedding = Embedding(place.settings)
    assert await embedding.go_over(place.here)
    assert endpoint.texts == ["turn 8", "turn 7"]
    for _ in range(2):
        found = await search_knowledge.work(place.here, Caller("human"), question)
        await embedding.go_over(place.here)
    assert [text for text in endpoint.texts if text != question.query][2:4] == ["the user painted a harbour", "turn 6"]
    assert any(one["meaning"] for one in (found.explanations or {}).values())
    while await embedding.go_over(place.here):
        pass
    assert "the tool painted a harbour" not in endpoint.texts
    assert await place.progress() == (10, 10)


@pytest.mark.parametrize("most", [3, 40])
async def test_many_imports_while_old_passages_wait_leave_nothing_out(
    place: Place, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, most: int
):
    monkeypatch.setattr(background, "TOGETHER", 2)
    monkeypatch.setattr(background, "MOST_WAITING", most)
    embedding, note, session = Embedding(place.settings), await place.document(), await place.document("sessions")
    wanted = set()
    for n in range(12):
        for role in ("user", "tool", "assistant"):
            await place.add(session, f"{role} {n}", source="sessions", role=role, minutes=-n)
        await place.add(note, f"note {n}", minutes=n % 5)
        wanted |= {f"user {n}", f"assistant {n}", f"note {n}"}
        await embedding.go_over(place.here)
    while await embedding.go_over(place.here):
        pass
    assert set(endpoint.texts) == wanted
    assert await place.progress() == (36, 36)


async def test_a_passage_that_changes_loses_its_vector_and_gets_another(place: Place, endpoint: Endpoint):
    note = await place.document()
    first = await place.add(note, "one")
    await place.add(note, "two")
    embedding = Embedding(place.settings)
    assert not await embedding.go_over(place.here)
    assert await place.progress() == (2, 2)
    await place.edit(note, first, "another")
    assert await place.progress() == (2, 1)
    await embedding.go_over(place.here)
    assert endpoint.texts[-1] == "another"
    assert await place.progress() == (2, 2)
    await place.here.change(lambda change: documents.remove_document(change, note))
    assert await place.progress() == (0, 0)


async def test_a_text_that_changes_while_its_vector_is_made_gets_the_vector_of_the_new_text(
    place: Place, endpoint: Endpoint
):
    note = await place.document()
    first = await place.add(note, "one")
    loop = asyncio.get_running_loop()

    def edit() -> None:
        endpoint.meanwhile = lambda: None
        asyncio.run_coroutine_threadsafe(place.edit(note, first, "changed"), loop).result()

    endpoint.meanwhile = edit
    embedding = Embedding(place.settings)
    await embedding.go_over(place.here)
    assert await place.progress() == (1, 0)
    await embedding.go_over(place.here)
    assert endpoint.texts == ["one", "changed"]
    assert await place.progress() == (1, 1)


async def test_a_changed_title_gets_no_vector_and_leaves_no_mark(place: Place, endpoint: Endpoint):
    note = await place.document(title="Boats")
    await place.here.change(lambda change: documents.retitle(change, source="notes", document_id=note, title="Ships"))
    assert len(await place.here.read(lambda read: vectors.stale(read, 10))) == 1
    await Embedding(place.settings).go_over(place.here)
    assert await place.here.read(lambda read: vectors.stale(read, 10)) == []
    assert endpoint.texts == []


@pytest.mark.thorough
async def test_a_deleted_note_loses_its_vectors_and_a_restored_one_gets_them_again(
    settings: Settings, endpoint: Endpoint
):
    with (
        start_server(
            settings.data,
            PALAVER_DATABASE_URL=settings.database_url,
            PALAVER_MODEL=settings.model,
            PALAVER_MODEL_URL=settings.model_url,
        ) as server,
        server.client() as api,
    ):

        def done() -> list[int]:
            found = api.get("/api/status").json()["model"]
            return [found["passages"], found["done"]]

        note = api.post("/api/notes", json={"title": "Boats", "content": "about boats"}).json()
        eventually(lambda: done() == [1, 1])
        api.delete(f"/api/notes/{note['id']}").raise_for_status()
        eventually(lambda: done() == [0, 0])
        api.post(f"/api/notes/{note['id']}/restore").raise_for_status()
        eventually(lambda: done() == [1, 1])
        assert endpoint.texts == ["about boats", "about boats"]


async def test_another_model_makes_its_own_vectors(place: Place, settings: Settings, endpoint: Endpoint):
    await place.add(await place.document(), "one")
    assert await background.make_all(place.here) == 1
    other = Settings(
        home=settings.home, database_url=settings.database_url, model="openai:other", model_url=endpoint.url
    )
    async with opened(other) as there:
        assert await there.progress() == (1, 0)
        assert await background.make_all(there.here) == 1
        assert await there.progress() == (1, 1)
    assert await place.progress() == (1, 0)


@pytest.mark.parametrize("how_often", ["SETTLE_SECONDS", "AGAIN_SECONDS"])
async def test_a_commit_that_comes_late_with_a_lower_id_is_found(
    place: Place, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, how_often: str
):
    monkeypatch.setattr(background, "LOOK_SECONDS", 0.0)
    embedding, note = Embedding(place.settings), await place.document()
    await embedding.go_over(place.here)
    late = await place.add(note, "late", minutes=1)
    await place.add(note, "early", minutes=2)
    await embedding.go_over(place.here)
    # As if the first had been committed after the second was looked at.
    await place.here.change(lambda change: vectors.remove(change, [late]))
    await embedding.go_over(place.here)
    assert endpoint.texts == ["early", "late"]
    monkeypatch.setattr(background, how_often, 0.0)
    for _ in range(3):
        await embedding.go_over(place.here)
    assert endpoint.texts == ["early", "late", "late"]


async def test_a_workspace_where_nothing_is_written_is_not_read(
    place: Place, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
):
    await place.add(await place.document(), "one")
    embedding = Embedding(place.settings)
    for _ in range(3):  # its own writes count as news
        await embedding.go_over(place.here)
    reads: list[object] = []

    def read(work: Callable[[Reader], object]) -> Awaitable[object]:
        reads.append(work)
        return place.here.engine.read(work)

    monkeypatch.setattr(place.here, "read", read)
    await embedding.go_over(place.here)
    assert reads == []
    await place.add(await place.document(), "two")
    await embedding.go_over(place.here)
    assert reads
    assert endpoint.texts == ["one", "two"]


# Several processes


async def test_one_process_at_a_time_makes_the_vectors_of_a_workspace(
    place: Place, settings: Settings, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(background, "TOGETHER", 1)
    note = await place.document()
    for n in range(3):
        await place.add(note, f"text {n}", minutes=n)
    one, other = Embedding(settings), Embedding(settings)
    async with opened(settings) as there:
        assert await one.go_over(place.here)
        assert not await other.go_over(there.here)
        with pytest.raises(Unavailable, match="Another process"):
            await background.make_all(there.here)
        while await one.go_over(place.here):
            pass
        assert endpoint.texts == ["text 2", "text 1", "text 0"]
        await place.add(note, "text 3", minutes=3)
        monkeypatch.setattr(background, "LOOK_SECONDS", 0.0)
        there_again = Embedding(settings)
        while await there_again.go_over(there.here):
            pass
    assert endpoint.texts == ["text 2", "text 1", "text 0", "text 3"]


async def test_the_lease_of_a_process_that_was_killed_ends(
    place: Place, settings: Settings, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
):
    note = await place.document()
    await place.add(note, "text")
    lease = await place.here.change(lambda change: vectors.take_lease(change, 3_600.0))
    assert lease is not None
    assert await place.here.change(lambda change: vectors.take_lease(change, 60.0)) is None
    assert await place.here.change(lambda change: vectors.renew_lease(change, lease, -60.0))
    assert await background.make_all(place.here) == 1
    assert await place.here.change(lambda change: vectors.renew_lease(change, lease, 60.0)) is None


# Failures


async def test_an_endpoint_that_fails_is_named_once_and_asked_again_later(
    place: Place, endpoint: Endpoint, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    caplog.set_level(logging.DEBUG)
    await place.add(await place.document(), "one")
    embedding = Embedding(place.settings)
    endpoint.status = 500
    await embedding.go_over(place.here)
    await embedding.go_over(place.here)
    assert len(endpoint.keys) == 1
    monkeypatch.setattr(background, "PAUSE_SECONDS", 0.0)
    embedding._pause_until = 0.0
    await embedding.go_over(place.here)
    assert len(endpoint.keys) == 2
    assert caplog.text.count("answered 500") == 1
    with pytest.raises(Unavailable, match="answered 500"):
        await background.make_all(place.here)
    endpoint.status = 200
    await embedding.go_over(place.here)
    assert await place.progress() == (1, 1)
    assert KEY not in caplog.text


async def test_the_log_says_how_far_it_is(
    place: Place, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    caplog.set_level(logging.INFO, "palaver")
    monkeypatch.setattr(background, "WORTH_TELLING", 4)
    monkeypatch.setattr(background, "TOGETHER", 2)
    monkeypatch.setattr(background, "COUNT_SHARE", 1e9)
    note = await place.document()
    for n in range(7):
        await place.add(note, f"text {n}")
    embedding = Embedding(place.settings)
    while await embedding.go_over(place.here):
        pass
    told = [record.message for record in caplog.records if "vectors in workspace" in record.message]
    assert told == [
        "vectors in workspace default: 2 of 7 passages have one",
        "vectors in workspace default: 7 of 7 passages have one",
    ]


# The process of the local model


WITH_ITS_PRIORITY = worker_process.MAIN
AT_ONCE = worker_process.MAIN[worker_process.MAIN.index("from palaver") :]
"""The program of the process with an ordinary priority. With the lowest one it gets no time at all while all processors
are busy, and the tests make them so."""
HURRY = f"from palaver.search.vectors import worker\nworker.MAIN = {AT_ONCE!r}"


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> Iterator[VectorWorker]:
    monkeypatch.setattr(worker_process, "MAIN", AT_ONCE)
    worker = VectorWorker("minilm")
    yield worker
    worker.close()


def test_its_vectors_are_those_of_the_model(local: VectorWorker):
    texts = ["The server stopped.", "", "word " * 3_000, "東京 \x00"]
    encoder = encoders.encoder("minilm", "", "")
    assert encoder is not None
    assert local.vectors(texts, 60.0) == encoders.packed(encoder.encode(texts, 60.0))


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="needs Linux")
def test_it_has_the_lowest_priority(local: VectorWorker, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(worker_process, "MAIN", WITH_ITS_PRIORITY)
    process = local._started()
    eventually(lambda: os.sched_getscheduler(process.pid) == os.SCHED_IDLE)
    assert psutil.Process(process.pid).nice() == 19


def test_a_process_that_was_killed_is_replaced(local: VectorWorker):
    before = local.vectors(["text"], 60.0)
    first = local.pid
    assert first
    os.kill(first, signal.SIGKILL)
    assert local.vectors(["text"], 60.0) == before
    assert local.pid != first


def test_a_process_that_dies_again_and_again_is_given_up(local: VectorWorker, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(worker_process, "MAIN", "import os; os.read(0, 1); os._exit(7)")
    with pytest.raises(CannotEncode, match="ended 3 times, the last time with 7"):
        local.vectors(["text"], 60.0)
    monkeypatch.setattr(worker_process, "MAIN", AT_ONCE)
    assert len(local.vectors(["text"], 60.0)) == 1


def test_a_model_that_cannot_be_loaded_is_named():
    worker = VectorWorker("fastembed:none")
    try:
        with pytest.raises(CannotEncode, match="needs the package fastembed"):
            worker.vectors(["text"], 60.0)
    finally:
        worker.close()


def test_an_idle_process_is_ended_and_starts_again_when_it_is_needed(
    local: VectorWorker, monkeypatch: pytest.MonkeyPatch
):
    local.vectors(["text"], 60.0)
    assert not local.is_idle
    process = psutil.Process(local.pid)
    monkeypatch.setattr(worker_process, "IDLE_SECONDS", 0.0)
    eventually(lambda: local.is_idle)
    local.stop()
    assert local.pid is None
    assert not process.is_running()
    assert len(local.vectors(["text"], 60.0)) == 1


def test_after_closing_no_process_is_started():
    worker = VectorWorker("minilm")
    worker.close()
    with pytest.raises(CannotEncode, match="closing"):
        worker.vectors(["text"], 60.0)


def child_of(server: Server) -> psutil.Process | None:
    def is_worker(child: psutil.Process) -> bool:
        try:
            return "serve()" in " ".join(child.cmdline())
        except psutil.Error:  # it has just ended
            return False

    found = list(filter(is_worker, psutil.Process(server.pid).children()))
    return found[0] if found else None


def test_a_server_makes_vectors_in_a_process_that_does_not_outlive_it(database_url: str, tmp_path: Path):
    with (
        start_server(tmp_path, before=HURRY, PALAVER_DATABASE_URL=database_url, PALAVER_MODEL="minilm") as server,
        server.client() as api,
    ):
        for n in range(120):
            api.post("/api/notes", json={"title": "Boats", "content": f"about {n} boats"}).raise_for_status()
        child = eventually(lambda: child_of(server))
        child.kill()
        again = eventually(lambda: (now := child_of(server)) and now.pid != child.pid and now)
        done = eventually(lambda: (now := api.get("/api/status").json()["model"])["done"] == 120 and now)
        assert done == {"name": "minilm", "passages": 120, "done": 120}
        metrics = api.get("/metrics").text
        assert "\npalaver_vectors 120\n" in metrics
        assert "\npalaver_vectors_missing 0\n" in metrics
        found = api.post("/api/knowledge/search", json={"query": "about 7 boats"})
        assert found.status_code == 200, found.text
        os.kill(server.pid, signal.SIGKILL)
        eventually(lambda: not again.is_running() or again.status() == psutil.STATUS_ZOMBIE)


def test_a_server_with_words_alone_starts_no_process_and_makes_no_vectors(tmp_path: Path):
    with start_server(tmp_path, PALAVER_MODEL="words") as server, server.client() as api:
        api.post("/api/notes", json={"title": "Boats", "content": "about boats"}).raise_for_status()
        assert api.get("/api/status").json()["model"] is None
        assert "palaver_vectors" not in api.get("/metrics").text
        assert not psutil.Process(server.pid).children()


# Commands and settings


def test_a_server_never_shows_the_key(tmp_path: Path, endpoint: Endpoint):
    with (
        start_server(
            tmp_path,
            PALAVER_MODEL="openai:some",
            PALAVER_MODEL_URL=endpoint.url,
            PALAVER_MODEL_KEY=KEY,
            PALAVER_LOG_LEVEL="debug",
        ) as server,
        server.client() as api,
    ):
        api.post("/api/notes", json={"title": "Boats", "content": "about boats"}).raise_for_status()
        eventually(lambda: api.get("/api/status").json()["model"]["done"] == 1)
        assert KEY not in server.said()
        shown = started_with(server.env, "--json", "config")
        assert "openai:some" in shown.stdout
        assert KEY not in shown.stdout


def test_reindex_makes_all_vectors_with_the_shipped_model(tmp_path: Path):
    assert started(tmp_path, "note", "add", "Boats", "about boats").returncode == 0
    done = started(tmp_path, "reindex", "--model", PALAVER_MODEL="minilm")
    assert "Made the vectors of 1 passages." in done.stdout + done.stderr, done
    shown = json.loads(started(tmp_path, "--json", "status", PALAVER_MODEL="minilm").stdout)
    assert shown["model"] == {"name": "minilm", "passages": 1, "done": 1}


@pytest.mark.thorough
def test_labelled_questions_are_asked_with_its_vectors(tmp_path: Path, endpoint: Endpoint):
    said = [{"id": f"m{n}", "speaker": "Ann", "text": f"The wug has a {it}."} for n, it in enumerate(("cat", "dog"))]
    world = {
        "conversations": [{"id": "c", "messages": said}],
        "questions": [{"question": "wug quixen", "evidence": ["c/m0"]}],
    }
    (tmp_path / "asked.jsonl").write_text(f"{json.dumps(world)}\n" * 3)

    def questions(**environment: str) -> float:
        found = subprocess.run(
            [sys.executable, EVALUATE, "--json", "asked.jsonl"], env={**os.environ, **environment},
            cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        (lines,) = json.loads(found.stdout)
        return float(lines["questions"])

    assert questions() == 3
    assert not endpoint.texts
    assert questions(PALAVER_MODEL="openai:some", PALAVER_MODEL_URL=endpoint.url) == 3
    assert sum("dog" in text for text in endpoint.texts) == 3


def test_doctor_says_whether_the_model_can_run(tmp_path: Path):
    def finding(model: str, before: str = "") -> dict[str, object]:
        code = palaver_command("--json", "doctor", before=before)
        environment = {**os.environ, "PALAVER_HOME": str(tmp_path), "PALAVER_MODEL": model}
        done = subprocess.run(code, env=environment, capture_output=True, text=True, timeout=120)
        return next(row for row in json.loads(done.stdout) if row["what"] == "model")

    assert finding("minilm")["is_well"] is True
    assert finding("words")["is_well"] is None
    missing = finding("fastembed:some")
    assert missing["is_well"] is False
    assert "needs the package fastembed: pip install it" in str(missing["says"])
    damaged = finding("minilm", "import sys; sys.modules['onnxruntime'] = None")
    assert damaged["is_well"] is False
    assert "onnxruntime" in str(damaged["says"])
    assert "PALAVER_MODEL=words" in str(damaged["advice"])


@pytest.mark.parametrize("name", ["minilm:x", "openai", "fastembed:", "gpt", "openai:"])
def test_an_unknown_model_is_refused_with_the_known_ones(name: str):
    with pytest.raises(Invalid, match="openai:NAME"):
        load(environ={"PALAVER_MODEL": name})


def test_the_old_name_of_words_is_known():
    assert load(environ={"PALAVER_MODEL": "builtin"}).model == "words"


def test_how_far_it_is_is_a_sentence_in_a_table():
    known = {"name": "minilm", "passages": 1_200, "done": 80}
    assert output.cell("model", known) == "minilm: 80 of 1,200 passages have vectors"
