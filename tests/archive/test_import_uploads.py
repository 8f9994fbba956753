"""Uploading a history: a job takes it in, tells how far it is, and what was in it is found."""

from __future__ import annotations

import io
import json
import os
import shutil
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.archive.test_cli_import import bomb, canonical_file, chatgpt_zip, claude_export, cut_zip, noise
from tests.archive.test_conversation_search import NOON, ask, chat, upload
from tests.conftest import Engine
from tests.helpers import Mcp, Server, eventually, start_server, started_with, word
from tests.importers import samples
from tests.importers.shapes import as_json

from palaver.app import App
from palaver.operations.archive.import_batches import MESSAGES_AT_ONCE
from palaver.settings import Settings
from palaver.store.library import import_jobs

FIELDS = {
    "id", "status", "message", "new", "changed", "unchanged", "messages", "bytes_read", "bytes_total", "formats", "kinds",
    "items", "skipped", "skipped_count",
}  # fmt: skip
Files = list[tuple[str, tuple[str, bytes]]]


@pytest.fixture(scope="module")
def own(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that takes at most two megabytes at once."""
    home = tmp_path_factory.mktemp(f"imports-{engine.name}")
    with start_server(home, PALAVER_DATABASE_URL=engine.fresh(), PALAVER_MAX_IMPORT="2MB") as server:
        yield server


@pytest.fixture(scope="module")
def web(own: Server) -> Iterator[httpx.Client]:
    with own.client() as client:
        yield client


def follow(web: httpx.Client, id: str, **headers: str) -> list[tuple[str, dict[str, Any]]]:
    """Every event of a job, to its end."""
    told: list[tuple[str, dict[str, Any]]] = []
    with web.stream("GET", f"/api/import/{id}/events", headers=headers) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        name = ""
        for line in response.iter_lines():
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                told.append((name, json.loads(line[6:])))
    return told


def send(web: httpx.Client, *files: tuple[str, bytes], **headers: str) -> dict[str, Any]:
    """Upload files; what the job says in the end."""
    parts: Files = [("file", file) for file in files]
    response = web.post("/api/import", files=parts, headers=headers)
    assert response.status_code == 202, response.text
    return follow(web, response.json()["id"], **headers)[-1][1]


def left_behind(own: Server) -> list[Path]:
    incoming = own.home / "uploads" / "incoming"
    return list(incoming.rglob("*")) if incoming.exists() else []


# An upload becomes a job


def test_an_upload_is_a_job_that_ends_and_what_was_in_it_is_searchable(own: Server, web: httpx.Client, tmp_path: Path):
    unique = word()
    raw = as_json([chat(f"On {unique}", ("user", f"{unique} said", NOON), id=unique)])
    response = web.post("/api/import", files={"file": ("conversations.json", raw)})
    assert response.status_code == 202
    begun = response.json()
    assert set(begun) == FIELDS
    assert begun["status"] in ("running", "done")
    name, done = follow(web, begun["id"])[-1]
    assert name == "import.done"
    assert done == {
        "id": begun["id"], "status": "done", "message": None, "new": 1, "changed": 0, "unchanged": 0, "messages": 1,
        "bytes_read": len(raw), "bytes_total": len(raw), "formats": {"chatgpt": 1},
        "kinds": {"conversations": {"new": 1, "changed": 0, "unchanged": 0}}, "skipped": [], "skipped_count": 0,
        "items": [
            {"source": "archive", "id": f"chatgpt:{unique}", "uri": f"archive://chatgpt:{unique}", "outcome": "new"}
        ],
    }  # fmt: skip
    assert not left_behind(own)  # what is done has nothing left to tidy
    assert web.get(f"/api/import/{begun['id']}").json() == done
    assert ask(Mcp(web), query=unique) == (f"[2025-02-10 12:00] user (conv: On {unique})\n{unique} said", False)
    shown = web.get(f"/api/archive/chatgpt:{unique}")
    assert shown.status_code == 200
    assert [message["text"] for message in shown.json()["messages"]] == [f"{unique} said"]


def test_its_events_count_upwards_and_the_last_one_says_how_it_ended(web: httpx.Client):
    unique, each = word(), 10
    count = 3 * MESSAGES_AT_ONCE // each
    id = web.post("/api/import", files={"file": ("conversations.zip", long_export(unique, count, each))}).json()["id"]
    told = follow(web, id)
    assert [name for name, _ in told[:-1]] == ["import.progress"] * (len(told) - 1)
    assert told[-1][0] == "import.done"
    counts = [data["messages"] for _, data in told]
    assert counts == sorted(counts)
    assert (told[-1][1]["new"], counts[-1]) == (count, count * each)
    assert follow(web, id) == told[-1:]  # whoever comes late is told the end


def long_export(unique: str, count: int, each: int) -> bytes:
    raw = as_json([chat("t", *(("user", f"{n}", NOON) for n in range(each)), id=f"{unique}{c}") for c in range(count)])
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", raw)
    return packed.getvalue()


def test_everybody_who_follows_it_is_told_each_move_and_the_end_at_once(web: httpx.Client):
    export = long_export(word(), 3 * MESSAGES_AT_ONCE // 10, 10)
    id = web.post("/api/import", files={"file": ("conversations.zip", export)}).json()["id"]
    with ThreadPoolExecutor(4) as followers:
        began = time.monotonic()
        told = list(followers.map(lambda _: (follow(web, id), time.monotonic() - began), range(4)))
    assert [frames[-1][0] for frames, _ in told] == ["import.done"] * 4
    ended = [seconds for _, seconds in told]
    assert max(ended) - min(ended) < 5  # an idle follower looks by itself only every ten seconds
    for frames, _ in told:
        shares = [data["bytes_read"] for _, data in frames]
        assert shares == sorted(shares)
        assert shares[-1] == frames[-1][1]["bytes_total"] > len(export)


def test_uploading_again_doubles_nothing(web: httpx.Client):
    unique = word()
    one = chat(unique, ("user", "x", NOON), id=unique)
    assert upload(web, one)["new"] == 1
    assert upload(web, one)["unchanged"] == 1


def test_several_files_of_several_kinds_may_come_at_once_even_under_one_name(web: httpx.Client, tmp_path: Path):
    unique = word()
    done = send(
        web,
        ("conversations.json", as_json([chat(unique, ("user", "one", NOON), id=f"{unique}1")])),
        ("conversations.json", claude_export(tmp_path / "a").read_bytes()),
        ("export.zip", chatgpt_zip(tmp_path).read_bytes()),
        ("canonical.db", canonical_file(tmp_path / "b").read_bytes()),
        (f"{unique}.jsonl", samples.claude_session(unique, "ivy")),
    )
    assert done["status"] == "done"
    assert set(done["formats"]) == {"chatgpt", "claude-ai", "canonical-db", "claude-code"}


# What cannot be taken


@pytest.mark.parametrize("make", [noise, cut_zip, bomb], ids=["noise", "cut_zip", "bomb"])
def test_a_hostile_file_is_skipped_by_name_and_the_good_one_is_kept(
    own: Server, web: httpx.Client, tmp_path: Path, make: Any
):
    path, unique = make(tmp_path), word()
    done = send(
        web,
        (path.name, path.read_bytes()),
        ("conversations.json", as_json([chat(unique, ("user", "x", NOON), id=unique)])),
    )
    assert done["new"] == 1
    (skipped,) = done["skipped"]
    assert path.name in skipped["name"]
    assert str(own.home) not in json.dumps(done)
    eventually(lambda: not left_behind(own))


@pytest.mark.parametrize(
    "name",
    [
        "../../../escaped.json",
        "/etc/escaped.json",
        "..",
        ".",
        "a\\..\\escaped.json",
        "\x01esc.json",
        "x" * 300 + ".json",
        "…",
    ],
)
def test_no_name_leads_out_of_the_place_for_uploads(own: Server, web: httpx.Client, name: str):
    unique = word()
    before = set(own.home.rglob("*escaped*"))
    done = send(web, (name, as_json([chat(unique, ("user", "x", NOON), id=unique)])))
    assert done["new"] == 1
    assert set(own.home.rglob("*escaped*")) == before
    eventually(lambda: not left_behind(own))


def test_more_than_the_limit_is_refused_and_leaves_nothing(own: Server, web: httpx.Client):
    response = web.post("/api/import", files={"file": ("conversations.json", b"[" + b" " * 2_200_000 + b"]")})
    assert response.status_code == 413
    assert "2,097,152 bytes" in response.json()["detail"] or "2,000,000 bytes" in response.json()["detail"]
    eventually(lambda: not left_behind(own))


@pytest.mark.parametrize(
    "request_",
    [
        {"content": b"", "headers": {"content-type": "multipart/form-data; boundary=x"}},
        {"content": b"hello", "headers": {"content-type": "text/plain"}},
        {"content": b"[]", "headers": {"content-type": "application/json"}},
        {"content": b"--x\r\nbroken", "headers": {"content-type": "multipart/form-data; boundary=x"}},
        {"content": b"no boundary", "headers": {"content-type": "multipart/form-data"}},
        {"files": {"other": ("conversations.json", b"[]")}},
        {"data": {"file": "not a file"}},
    ],
)
def test_what_is_no_upload_is_refused_with_what_to_do(own: Server, web: httpx.Client, request_: dict[str, Any]):
    response = web.post("/api/import", **request_)
    assert response.status_code == 400
    assert response.json() == {"detail": "Send the files as multipart/form-data, in parts named 'file'."}
    eventually(lambda: not left_behind(own))


def test_an_unknown_job_is_not_found(web: httpx.Client):
    for path in ("/api/import/nothing", "/api/import/nothing/events"):
        response = web.get(path)
        assert response.status_code == 404
        assert "nothing" in response.json()["detail"]
    assert web.get("/api/import").status_code == 405


# Who may


def test_a_token_that_may_only_read_may_not_upload_and_another_workspace_sees_no_job(engine: Engine, tmp_path: Path):
    with (
        start_server(tmp_path, PALAVER_DATABASE_URL=engine.fresh(), PALAVER_AUTH="token") as server,
        server.client() as web,
    ):

        def palaver(*args: str) -> str:
            done = started_with(server.env, *args)
            assert done.returncode == 0, done.stderr
            return done.stdout.strip()

        reader = {"authorization": f"Bearer {palaver('token', 'create', '--human', 'ann', '--scope', 'read')}"}
        writer = {"authorization": f"Bearer {palaver('token', 'create', '--human', 'bob')}"}
        palaver("workspace", "create", "hers")
        other = {"authorization": f"Bearer {palaver('token', 'create', '--workspace', 'hers', '--human', 'eve')}"}
        file = ("conversations.json", as_json([chat("t", ("user", "x", NOON), id="c")]))
        assert web.post("/api/import", files={"file": file}).status_code == 401
        assert web.post("/api/import", files={"file": file}, headers=reader).status_code == 403
        done = send(web, file, **writer)
        assert done["new"] == 1
        path = f"/api/import/{done['id']}"
        assert web.get(path, headers=reader).status_code == 200
        for hidden in (path, f"{path}/events", "/api/archive/chatgpt:c"):
            assert web.get(hidden, headers=other).status_code == 404
        assert web.get("/api/archive", headers=other).json() == {"conversations": []}


def test_an_upload_that_a_killed_server_left_is_deleted_after_a_day(own: Server, web: httpx.Client):
    incoming = own.home / "uploads" / "incoming"
    old, new = incoming / "old" / "0", incoming / "new" / "0"
    for folder in (old, new):
        folder.mkdir(parents=True)
        (folder / "conversations.json").write_bytes(b"[]")
    day_ago = time.time() - 25 * 3600
    os.utime(old.parent, (day_ago, day_ago))
    upload(web, chat("a talk", ("user", word(), NOON), id=word()))
    assert [path.name for path in incoming.iterdir()] == ["new"]
    shutil.rmtree(new.parent)


# Several servers, and restarts


def test_another_server_knows_the_job_and_how_it_ended(engine: Engine, tmp_path: Path):
    unique, url = word(), engine.fresh()
    raw = as_json([chat(f"On {unique}", ("user", f"{unique} said", NOON), id=unique)])
    with (
        start_server(tmp_path, PALAVER_DATABASE_URL=url) as one,
        start_server(tmp_path, PALAVER_DATABASE_URL=url) as other,
        one.client() as here,
        other.client() as there,
    ):
        id = here.post("/api/import", files={"file": ("conversations.json", raw)}).json()["id"]
        assert follow(there, id)[-1] == follow(here, id)[-1]
        assert there.get(f"/api/import/{id}").json()["new"] == 1
        assert there.get("/api/import/nothing").status_code == 404


async def test_a_job_whose_server_is_silent_has_failed_and_says_what_to_do(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    app = App(Settings(home=tmp_path, database_url=database_url))
    here = await app.create_workspace("jobs")
    await here.change(lambda change: import_jobs.put(change, {"id": "a", "status": "running", "message": None}))
    await here.change(lambda change: import_jobs.put(change, {"id": "b", "status": "done", "message": None}))
    assert await here.read(lambda read: import_jobs.find(read, "a")) == {
        "id": "a", "status": "running", "message": None
    }  # fmt: skip
    monkeypatch.setattr(import_jobs, "SILENT", timedelta(0))
    state = await here.read(lambda read: import_jobs.find(read, "a"))
    assert state is not None
    assert state["status"] == "failed"
    assert "Upload the same files again" in state["message"]
    done = await here.read(lambda read: import_jobs.find(read, "b"))
    assert done is not None
    assert done["status"] == "done"
    await app.close()
