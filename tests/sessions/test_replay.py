"""The steps of a session: calls with their results, failures, edits, branches, subagents, and how to resume it."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import httpx
import pytest
from tests.helpers import word
from tests.importers.shapes import as_json
from tests.importers.test_chatgpt import message, node

from palaver.operations.sessions.replay import resume_of
from palaver.operations.sessions.steps import call_text

Turn = dict[str, Any]


def turn(role: str, content: str, second: float = 0, **tool: Any) -> Turn:
    at = f"2026-03-01T10:{int(second) // 60:02d}:{second % 60:09.6f}Z"
    return {"id": uuid4().hex, "role": role, "content": content, "ts": at, **({"tool": tool} if tool else {})}


def record(api: httpx.Client, *turns: Turn, agent: str = "", session: str = "", **more: Any) -> str:
    """Merge turns into a session, and return the path of its steps."""
    path = f"/api/v1/agents/{agent or word('agent')}/sessions/{session or word('s')}"
    response = api.put(f"{path}/messages", json={"turns": turns, **more})
    assert response.status_code == 200, response.text
    return f"{path}/steps"


def steps(api: httpx.Client, path: str, **params: Any) -> dict[str, Any]:
    response = api.get(path, params=params)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def upload(api: httpx.Client, *files: tuple[str, bytes]) -> None:
    """Import files through the server, and wait for the end."""
    response = api.post("/api/import", files=[("file", one) for one in files])
    assert response.status_code == 202, response.text
    with api.stream("GET", f"/api/import/{response.json()['id']}/events") as events:
        *_, last = (json.loads(line[6:]) for line in events.iter_lines() if line.startswith("data: "))
    assert last["status"] == "done", last


def test_a_call_and_its_result_are_one_step_with_its_duration_and_failure(api: httpx.Client):
    path = record(
        api,
        turn("user", "run the tests", 0),
        turn("tool", '[tool Bash] {"command":"pytest -q"}', 1, call="a"),
        turn("tool", '[tool Read] {"file_path":"/src/app.py"}', 1, call="b"),
        turn("tool", "import os", 2, call="b"),
        turn("tool", "Exit code 1\nFAILED test_app.py", 4.5, call="a", is_error=True),
        turn("assistant", "one test fails", 6),
    )
    found = steps(api, path, outline=True)
    question, bash, read, answer = found["steps"]
    assert (question["kind"], answer["kind"]) == ("question", "answer")
    assert (bash["tool"], bash["brief"], bash["state"], bash["seconds"]) == ("Bash", "pytest -q", "failed", 3.5)
    assert bash["text"].startswith("Exit code 1")
    assert (read["state"], read["text"], read["path"]) == ("done", "import os", "/src/app.py")
    totals = found["outline"]["totals"]
    assert {key: totals[key] for key in ("steps", "questions", "calls", "errors", "edits", "seconds")} == {
        "steps": 4, "questions": 1, "calls": 2, "errors": 1, "edits": 0, "seconds": 6.0,
    }  # fmt: skip
    assert found["outline"]["places"] == {"questions": [1], "answers": [4], "errors": [2], "edits": []}


def test_turns_without_call_ids_are_matched_in_order(api: httpx.Client):
    path = record(
        api,
        turn("tool", "[tool Bash] ls", 0),
        turn("tool", "[tool Bash] pwd", 1),
        turn("tool", "a.txt", 2),
        turn("tool", "Error: no such folder", 3),
        turn("assistant", "done", 4),
        turn("tool", "a result of nothing", 5),
    )
    first, second, _, alone = steps(api, path)["steps"]
    assert (first["text"], first["state"]) == ("a.txt", "done")
    assert (second["text"], second["state"]) == ("Error: no such folder", "failed")
    assert (alone["kind"], alone["text"]) == ("output", "a result of nothing")


def test_a_call_without_a_result_is_silent_or_at_the_end_open(api: httpx.Client):
    path = record(
        api,
        turn("tool", "[tool Bash] mkdir x", 0, call="a"),
        turn("assistant", "made", 1),
        turn("tool", "[tool Bash] sleep 100", 2, call="b"),
    )
    assert [one.get("state") for one in steps(api, path)["steps"]] == ["silent", None, "open"]


def test_steps_come_in_pages_and_at_a_turn(api: httpx.Client):
    turns = [turn("user" if n % 2 else "assistant", f"number {n}", n) for n in range(1, 96)]
    path = record(api, *turns)
    page = steps(api, path, after=90, limit=10)
    assert [one["number"] for one in page["steps"]] == [91, 92, 93, 94, 95]
    assert page["total"] == 95
    assert "outline" not in page
    around = steps(api, path, at=turns[42]["id"], limit=10)
    assert (around["after"], around["found"]) == (40, 43)
    assert around["steps"][2]["text"] == "number 43"
    assert "found" not in steps(api, path, at="unknown")


def test_long_texts_are_cut_unless_the_whole_step_is_asked_for(api: httpx.Client):
    long = "line of output\n" * 5_000
    path = record(api, turn("tool", "[tool Bash] cat log", 0, call="a"), turn("tool", long, 1, call="a"))
    (short,) = steps(api, path)["steps"]
    assert (len(short["text"]), short["length"]) == (3_000, len(long))
    (whole,) = steps(api, path, whole=True, limit=50)["steps"]
    assert whole["text"] == long
    assert "length" not in whole


def test_turns_that_were_taken_back_are_a_branch(api: httpx.Client):
    agent, session = word("agent"), word("s")
    first, wrong, answer = turn("user", "first", 0), turn("user", "a wrong turn", 1), turn("assistant", "hm", 2)
    record(api, first, wrong, answer, agent=agent, session=session)
    right = turn("user", "a better turn", 3)
    path = record(api, right, agent=agent, session=session, removed=[wrong["id"], answer["id"]])
    found = steps(api, path, outline=True)
    assert [one["text"] for one in found["steps"]] == ["first", "a better turn"]
    (branch,) = found["outline"]["branches"]
    assert (branch["number"], branch["beside"], branch["after"], branch["steps"]) == (1, 0, 1, 2)
    assert branch["title"] == "a wrong turn"
    assert [one["text"] for one in steps(api, path, branch=1)["steps"]] == ["a wrong turn", "hm"]
    assert api.get(path, params={"branch": 2}).status_code == 400


def test_subagents_are_listed_at_the_call_that_started_them_and_name_their_parent(api: httpx.Client):
    agent, session = word("agent"), word("s_")
    path = record(
        api,
        turn("user", "look", 0),
        turn("tool", '[tool Task] {"description":"find it"}', 1, call="a"),
        turn("tool", "found", 20, call="a"),
        agent=agent,
        session=session,
    )
    below = record(api, turn("assistant", "find it", 2), agent=agent, session=f"{session}.agent-1")
    record(api, turn("assistant", "another", 2), agent=agent, session=f"{session.replace('_', 'x')}.agent-1")
    (one,) = steps(api, path, outline=True)["outline"]["subagents"]
    assert (one["id"], one["at"], one["title"]) == (f"{session}.agent-1", 2, "find it")
    outline = steps(api, below, outline=True)["outline"]
    assert outline["parent"]["id"] == session
    assert outline["resume"] is None


def test_an_unknown_session_is_not_found(api: httpx.Client):
    record(api, turn("user", "x"), agent=(agent := word("agent")))
    assert api.get(f"/api/v1/agents/{agent}/sessions/none/steps").status_code == 404
    assert api.get("/api/archive/none/steps").status_code == 404


# Imported conversations


def test_chatgpt_keeps_all_branches_and_finds_the_one_shown_last(api: httpx.Client):
    unique, id = word("ivy"), str(uuid4())
    nodes = {
        "r": node("r", None, None, "q1", "q2"),
        "q1": node("q1", "r", message("user", f"{unique} first wording"), "a1"),
        "a1": node("a1", "q1", message("assistant", f"{unique} first answer")),
        "q2": node("q2", "r", message("user", f"{unique} second wording"), "a2", "a3"),
        "a2": node("a2", "q2", message("assistant", f"{unique} thrown away"), "q3"),
        "q3": node("q3", "a2", message("user", f"{unique} asked there")),
        "a3": node("a3", "q2", message("assistant", f"{unique} final answer")),
    }
    upload(api, ("conversations.json", as_json([{
        "title": "Ivy", "create_time": 1738500000, "mapping": nodes, "current_node": "a3", "id": id,
    }])))  # fmt: skip
    path = f"/api/archive/chatgpt:{id}/steps"
    found = steps(api, path, outline=True)
    assert [one["text"] for one in found["steps"]] == [f"{unique} second wording", f"{unique} final answer"]
    assert found["outline"]["resume"]["url"] == f"https://chatgpt.com/c/{id}"
    branches = [(one["after"], one["beside"], one["steps"]) for one in found["outline"]["branches"]]
    assert branches == [(0, 0, 2), (1, 0, 2)]
    assert [one["text"] for one in steps(api, path, branch=2)["steps"]] == [
        f"{unique} thrown away",
        f"{unique} asked there",
    ]
    hits = api.post("/api/knowledge/search", json={"query": unique, "sources": ["archive"], "limit": 20}).json()
    texts = json.dumps(hits)
    assert "final answer" in texts or "second wording" in texts
    assert "thrown away" not in texts
    assert "first answer" not in texts
    exported = api.get(f"/api/archive/chatgpt:{id}").json()
    assert len(exported["branches"]) == 2


def test_an_imported_session_knows_failures_rewound_turns_and_its_subagents(api: httpx.Client):
    id, first = str(uuid4()), str(uuid4())
    common = {"sessionId": id, "isSidechain": False, "cwd": "/src/x"}

    def row(kind: str, content: Any, uuid: str, parent: str | None, second: int, **more: Any) -> dict[str, Any]:
        said = {"role": kind, "content": content, **({"id": f"m-{uuid}"} if kind == "assistant" else {})}
        at = f"2026-03-01T10:00:{second:02d}Z"
        return {**common, "type": kind, "uuid": uuid, "parentUuid": parent, "timestamp": at, "message": said, **more}

    ids = [str(uuid4()) for _ in range(5)]
    use = [{"type": "tool_use", "id": "t1", "name": "Edit", "input": {
        "file_path": "/src/x/a.py", "old_string": "one\ntwo", "new_string": "one\n2"}}]  # fmt: skip
    result = [{"type": "tool_result", "tool_use_id": "t1", "content": "no such text", "is_error": True}]
    lines = [
        row("user", "change it", first, None, 0),
        row("assistant", use, ids[0], first, 1),
        row("user", result, ids[1], ids[0], 3),
        row("user", "a wrong turn", ids[2], ids[1], 4),
        row("user", "a better turn", ids[3], ids[1], 5),
    ]
    child = {**row("user", "the task", ids[4], None, 2), "isSidechain": True}
    upload(
        api,
        (f"{id}.jsonl", b"".join(json.dumps(one).encode() + b"\n" for one in lines)),
        (f"p/{id}/subagents/agent-7.jsonl", json.dumps(child).encode() + b"\n"),
    )
    found = steps(api, f"/api/archive/claude-code:{id}/steps", outline=True)
    question, edit, last = found["steps"]
    assert (question["text"], last["text"]) == ("change it", "a better turn")
    assert (edit["state"], edit["seconds"], edit["path"]) == ("failed", 2.0, "/src/x/a.py")
    assert edit["diff"].splitlines() == [" one", "-two", "+2"]
    assert [one["title"] for one in found["outline"]["branches"]] == ["a wrong turn"]
    assert found["outline"]["resume"]["command"] == f"claude --resume {id}"


# Without a server


@pytest.mark.parametrize(
    "text, brief, diff",
    [
        ('[tool shell] {"command":["bash","-lc","ls -la"]}', "ls -la", None),
        ('[tool Grep] {"pattern":"TODO","path":"src"}', "TODO src", None),
        ('[tool Write] {"content":"a\\nb","file_path":"x.py"}', "x.py", "+a\n+b"),
        ("[tool apply_patch] *** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n*** End Patch", "a.py",
         "*** Update File: a.py\n@@\n-x\n+y"),
        ('[tool edit] {"filePath":"b.ts","oldString":"x","newString":"y","more":"cut of', "b.ts", "-x\n+y"),
        ('[tool MultiEdit] {"file_path":"m","edits":[{"old_string":"a","new_string":"b"},'
         '{"old_string":"c","new_string":"d"}]}', "m", "-a\n+b\n-c\n+d"),
        ("[tool Strange] not json", "not json", None),
        ('[tool Nothing] {"', '{"', None),
    ],
)  # fmt: skip
def test_a_call_is_shown_by_its_most_telling_argument_and_an_edit_as_a_diff(text: str, brief: str, diff: str | None):
    shown = call_text(text)
    assert (shown.brief, shown.diff) == (brief, diff)


@pytest.mark.parametrize(
    "program, id, expected",
    [
        ("claude-code", "0b7c5e0e-1111-4222-8333-944445555666", "claude --resume 0b7c5e0e-1111-4222-8333-944445555666"),
        ("codex", "0b7c5e0e-1111-4222-8333-944445555666_x", "codex resume 0b7c5e0e-1111-4222-8333-944445555666"),
        ("opencode", "ses_4f3a9c1b2ffeQwErTy1234", "opencode -s ses_4f3a9c1b2ffeQwErTy1234"),
        ("claude-ai", "0b7c5e0e-1111-4222-8333-944445555666", "https://claude.ai/chat/0b7c5e0e-1111-4222-8333-944445555666"),
        ("claude-code", "0b7c5e0e-1111-4222-8333-944445555666.agent-1", None),
        ("claude-code", "x; rm -r y", None),
        ("cursor", "0b7c5e0e-1111-4222-8333-944445555666", None),
    ],
)  # fmt: skip
def test_a_session_can_be_resumed_where_its_program_and_id_allow_it(program: str, id: str, expected: str | None):
    found = resume_of(program, id)
    assert (found and (found.command or found.url)) == expected
