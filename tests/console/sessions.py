"""A coding session for tests of the replay: questions, answers, calls that succeed, fail or never return, and edits."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx

CODE = '''Done. The retry now waits longer each time:

```python
def wait(attempt: int) -> float:
    """Seconds until the next try."""
    return min(60.0, 0.5 * 2**attempt)  # doubles
```

| attempt | seconds |
|---|---|
| 1 | 1.0 |
| 5 | 16.0 |
'''
EDIT = (
    '[tool Edit] {"file_path":"/src/relay/retry.py",'
    '"old_string":"def wait(attempt):\\n    return 1.0\\n",'
    '"new_string":"def wait(attempt: int) -> float:\\n    return min(60.0, 0.5 * 2**attempt)\\n"}'
)
FAILURE = (
    "Exit code 1\n"
    "FAILED tests/test_retry.py::test_wait - assert 1.0 == 2.0\n"
    "Traceback (most recent call last):\n"
    '  File "/src/relay/tests/test_retry.py", line 12, in test_wait\n'
    "    assert wait(2) == 2.0\n"
    "AssertionError"
)
LONG = "\n".join(f"{number:>5}  tests/test_retry.py::test_case_{number} PASSED" for number in range(1, 81))


def turn(role: str, content: str, second: float, **tool: Any) -> dict[str, Any]:
    at = f"2026-03-01T{10 + int(second) // 3600:02d}:{int(second) // 60 % 60:02d}:{second % 60:09.6f}Z"
    return {"id": uuid4().hex, "role": role, "content": content, "ts": at, **({"tool": tool} if tool else {})}


def coding_session() -> list[dict[str, Any]]:
    return [
        turn("user", "The relay gives up too early. Make the **retry** wait longer each time, up to a minute.", 0),
        turn("assistant", "I look at the code first.", 4),
        turn("tool", '[tool Read] {"file_path":"/src/relay/retry.py"}', 6, call="c1"),
        turn("tool", "def wait(attempt):\n    return 1.0\n", 6.4, call="c1"),
        turn("tool", '[tool Bash] {"command":"pytest -q tests/test_retry.py"}', 10, call="c2"),
        turn("tool", FAILURE, 22.5, call="c2", is_error=True),
        turn("tool", EDIT, 40, call="c3"),
        turn("tool", "The file has been updated.", 40.2, call="c3"),
        turn("tool", '[tool Bash] {"command":"pytest -q -v"}', 50, call="c4"),
        turn("tool", LONG, 185, call="c4"),
        turn("tool", '[tool Bash] {"command":"mkdir -p build"}', 190, call="c5"),
        turn("assistant", CODE, 200),
        turn("user", "Now release it.", 1500),
        turn("tool", '[tool Task] {"description":"write the release notes"}', 1510, call="c6"),
        turn("tool", "The notes are in CHANGES.md.", 1600, call="c6"),
        turn("assistant", "The release is being built.", 1610),
        turn("tool", '[tool Bash] {"command":"make release"}', 2520, call="c7"),
    ]


def record(api: httpx.Client, agent: str, session: str, turns: list[dict[str, Any]], **more: Any) -> str:
    """Record a session, and return its address in the console."""
    path = f"/api/v1/agents/{agent}/sessions/{session}/messages"
    for start in range(0, len(turns), 1_000):
        response = api.put(path, json={"turns": turns[start : start + 1_000], **more})
        assert response.status_code == 200, response.text
    return address(api, agent, session)


def address(api: httpx.Client, agent: str, session: str, turn_id: str = "") -> str:
    listed = api.get("/api/v1/sessions", params={"agent": agent}).json()["sessions"]
    agent_id = next(one["agent_id"] for one in listed if one["session_id"] == session)
    at = f',"message_id":"{turn_id}"' if turn_id else ""
    return f'#/open/sessions/{agent_id}%2F{session}?loc={{"agent_id":"{agent_id}","session_id":"{session}"{at}}}'
