"""A stronger model by setting: a small endpoint that answers as OpenAI's does, on both engines."""

from __future__ import annotations

import json
import logging
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from tests.helpers import eventually, palaver_command, start_server, started_with, word

from palaver.app import App
from palaver.doors.cli import output
from palaver.errors import Invalid, Unavailable
from palaver.importers.chats.labelled_questions import Line, Talk, World
from palaver.model.people import Caller
from palaver.model.search import ResultItem
from palaver.operations.admin import evaluation
from palaver.operations.search.knowledge import SearchKnowledge, search_knowledge
from palaver.search.vectors import background as stronger
from palaver.settings import Settings, load
from palaver.store.engines.database import Change
from palaver.store.library import documents
from palaver.store.search import vectors
from palaver.store.workspaces import Workspace

KEY = "sk-nobody-must-see-this"
SAME = {"zorblat": 1, "quixen": 1}
"""Words that mean the same: the endpoint knows it, the model inside the package does not."""


@dataclass
class Endpoint:
    url: str = ""
    keys: list[str | None] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    status: int = 200

    def vector(self, text: str) -> list[float]:
        found = [0.01, 0.0, 0.0, 0.0]
        for one in text.lower().replace(".", " ").split():
            found[SAME.get(one, 2 + len(one) % 2)] += 1.0
        return found


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    there = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            there.keys.append(self.headers["Authorization"])
            there.texts += asked["input"]
            rows = [{"index": n, "embedding": there.vector(text)} for n, text in enumerate(asked["input"])]
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


def settings_for(endpoint: Endpoint, database_url: str, home: Path) -> Settings:
    # A name of its own: what failed once is not asked again for a while.
    name = f"openai:{word()}"
    return Settings(home=home, database_url=database_url, model=name, model_url=endpoint.url, model_key=KEY)


async def filled(app: App, unique: str) -> Workspace:
    here = await app.open()
    said = (f"The {unique} has a zorblat there.", f"The {unique} has a bongler there.")
    lines = tuple(Line(id=f"m{n}", speaker="Ann", text=text, at=None) for n, text in enumerate(said))
    await evaluation.add_conversations(here, World("w", (Talk("t", "", lines),), ()))
    return here


async def first(here: Workspace, unique: str) -> str | None:
    ask = SearchKnowledge(query=f"{unique} quixen", dedupe=False)
    answer = await search_knowledge.work(here, Caller("human"), ask)
    best = answer.results[0]
    assert isinstance(best, ResultItem)
    return best.message_id


async def test_its_vectors_decide_once_they_are_made(database_url: str, tmp_path: Path, endpoint: Endpoint):
    app = App(settings_for(endpoint, database_url, tmp_path))
    try:
        here = await filled(app, unique := word())
        assert await first(here, unique) == "t/m1"  # the newest, nothing else tells them apart
        known = await here.read(stronger.progress_of)
        assert known is not None
        assert (known.passages, known.done) == (2, 0)
        assert await stronger.catch_up(here) == 2
        assert await stronger.catch_up(here) == 0
        known = await here.read(stronger.progress_of)
        assert known is not None
        assert known.done == 2
        assert await first(here, unique) == "t/m0"
        assert set(endpoint.keys) == {f"Bearer {KEY}"}
    finally:
        await app.close()


async def test_a_passage_that_changes_loses_its_vector_and_gets_another(
    database_url: str, tmp_path: Path, endpoint: Endpoint
):
    app = App(settings_for(endpoint, database_url, tmp_path))
    try:
        here = await filled(app, unique := word())
        await stronger.catch_up(here)
        model = here.settings.model

        def edit(change: Change) -> None:
            row = change.must("passage_of_source", source="chats", native_id="t/m1")
            documents.update_passage(
                change, source="chats", document_id=row["document_id"], passage_id=row["id"], author_id=None,
                role=None, text=f"The {unique} has a quixen there.", data="{}",
            )  # fmt: skip

        await here.change(edit)
        assert (await here.read(lambda read: vectors.counts(read, model))).vectors == 1
        assert await stronger.catch_up(here) == 1
        assert endpoint.texts[-1] == f"The {unique} has a quixen there."

        def remove(change: Change) -> None:
            row = change.must("document_by_native", source="chats", native_id="t")
            documents.remove_document(change, row["id"])

        await here.change(remove)
        assert await here.read(lambda read: vectors.counts(read, model)) == (0, 0)
    finally:
        await app.close()


async def test_an_endpoint_that_fails_stops_nothing_and_its_key_is_not_logged(
    database_url: str, tmp_path: Path, endpoint: Endpoint, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    app = App(settings_for(endpoint, database_url, tmp_path))
    try:
        here = await filled(app, unique := word())
        await stronger.catch_up(here)
        endpoint.status = 500
        assert await first(here, unique) == "t/m1"
        assert "does not answer" in caplog.text
        await evaluation.add_conversations(here, World("w", (Talk("u", "", (Line("m", "Bob", "more", None),)),), ()))
        with pytest.raises(Unavailable, match="answered 500"):
            await stronger.make_all(here, lambda more: None)
        assert KEY not in caplog.text
    finally:
        await app.close()


async def test_a_server_says_once_that_a_model_fails_and_asks_it_again_later(
    database_url: str, tmp_path: Path, endpoint: Endpoint, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    app = App(settings_for(endpoint, database_url, tmp_path))
    try:
        here, background = await filled(app, word()), stronger.Embedding()
        endpoint.status = 500
        await background.go_over(here)
        await background.go_over(here)
        assert len(endpoint.keys) == 1
        monkeypatch.setattr(stronger, "PAUSE_SECONDS", 0.0)
        background._pause_until = 0.0
        await background.go_over(here)
        assert len(endpoint.keys) == 2
        assert caplog.text.count("answered 500") == 1
        endpoint.status = 200
        await background.go_over(here)
        await background.go_over(here)
        assert len(endpoint.keys) == 3
    finally:
        await app.close()


async def test_a_long_message_is_as_like_as_the_sentence_in_it_that_is_most(
    database_url: str, tmp_path: Path, endpoint: Endpoint
):
    app = App(settings_for(endpoint, database_url, tmp_path))
    try:
        here, unique = await app.open(), word()
        long = f"The {unique} is here. " + "There are many other words around it that say nothing. " * 4
        said = (f"{long}\nBut a zorblat.", f"{long}\nBut a bongler.")
        lines = tuple(Line(id=f"m{n}", speaker="Ann", text=text, at=None) for n, text in enumerate(said))
        await evaluation.add_conversations(here, World("w", (Talk("t", "", lines),), ()))
        assert await stronger.catch_up(here) == 2
        assert len(endpoint.texts) > 4
        assert await first(here, unique) == "t/m0"
    finally:
        await app.close()


async def test_another_model_makes_its_own_vectors(database_url: str, tmp_path: Path, endpoint: Endpoint):
    app = App(settings_for(endpoint, database_url, tmp_path))
    await filled(app, unique := word())
    await stronger.catch_up(await app.open())
    await app.close()
    app = App(settings_for(endpoint, database_url, tmp_path))
    try:
        here = await app.open()
        known = await here.read(stronger.progress_of)
        assert known is not None
        assert known.done == 0
        assert await first(here, unique) == "t/m1"
        assert await stronger.catch_up(here) == 2
        assert await first(here, unique) == "t/m0"
    finally:
        await app.close()


@pytest.mark.parametrize("name", ["minilm:x", "openai", "fastembed:", "gpt", "openai:"])
def test_an_unknown_model_is_refused_with_the_known_ones(name: str):
    with pytest.raises(Invalid, match="openai:NAME"):
        load(environ={"PALAVER_MODEL": name})


def test_a_likeness_is_put_on_the_scale_of_another():
    assert stronger.rescale([10.0, 20.0, 30.0], [0.0, 0.5, 1.0]) == pytest.approx([0.0, 0.5, 1.0])
    assert stronger.rescale([7.0, 7.0], [0.2, 0.4]) == [0.2, 0.4]


def test_how_far_it_is_is_a_sentence_in_a_table():
    known = {"name": "minilm", "passages": 1_200, "done": 80}
    assert output.cell("model", known) == "minilm: 80 of 1,200 passages have vectors"


def test_labelled_questions_are_asked_with_its_vectors(tmp_path: Path, endpoint: Endpoint):
    said = [
        {"id": f"m{n}", "speaker": "Ann", "text": f"The wug has a {it} there."}
        for n, it in enumerate(("zorblat", "bongler"))
    ]
    asked = [{"question": "wug quixen", "evidence": ["c/m0"]}]
    world = {"conversations": [{"id": "c", "messages": said}], "questions": asked}
    (tmp_path / "asked.jsonl").write_text(f"{json.dumps(world)}\n" * 3)

    def hits(*options: str, **environment: str) -> dict[str, float]:
        found = subprocess.run(
            palaver_command("--json", "eval", "asked.jsonl", *options),
            env={**os.environ, **environment}, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        (lines,) = json.loads(found.stdout)
        return {name: lines[name] for name in ("questions", "message hit@1")}

    assert hits("--every", "2") == {"questions": 2, "message hit@1": 0.0}
    assert not endpoint.texts
    there = {"PALAVER_MODEL": "openai:some", "PALAVER_MODEL_URL": endpoint.url}
    assert hits(**there) == {"questions": 3, "message hit@1": 100.0}
    assert sum("bongler" in text for text in endpoint.texts) == 3


def test_a_server_makes_them_in_the_background_and_says_how_far_it_is(tmp_path: Path, endpoint: Endpoint):
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
        # Where the machine is busy the first try may come too late, and the next one follows after a pause.
        done = eventually(lambda: (now := api.get("/api/status").json()["model"])["done"] == 2 and now, 300)
        assert done == {"name": "openai:some", "passages": 2, "done": 2}
        assert KEY not in server.said()
        shown = started_with(server.env, "--json", "config")
        assert "openai:some" in shown.stdout
        assert KEY not in shown.stdout
