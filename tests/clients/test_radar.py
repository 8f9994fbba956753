"""The radar in real clients: the model reads before its edit that another agent edits the file, and may go on."""

from __future__ import annotations

import pytest
from tests.clients.model import Call
from tests.clients.test_hooks import Desk, desk

__all__ = ["desk"]
pytestmark = pytest.mark.clients


def edits(program: str, path: str) -> list[Call]:
    """The calls with which a program changes one line."""
    patch = f"*** Begin Patch\n*** Update File: {path}\n@@\n-VERSION = 1\n+VERSION = 2\n*** End Patch"
    return {
        "claude": [
            Call("Read", {"file_path": path}),
            Call("Edit", {"file_path": path, "old_string": "VERSION = 1", "new_string": "VERSION = 2"}),
        ],
        "codex": [Call("exec_command", {"cmd": f"apply_patch <<'EOF'\n{patch}\nEOF\n"})],
        "gemini": [
            Call("read_file", {"file_path": path}),
            Call("replace", {"file_path": path, "old_string": "VERSION = 1", "new_string": "VERSION = 2",
                             "instruction": "Bump the version."}),
        ],
        "opencode": [
            Call("read", {"filePath": path}),
            Call("edit", {"filePath": path, "oldString": "VERSION = 1", "newString": "VERSION = 2"}),
        ],
    }[program]  # fmt: skip


def test_the_model_is_told_before_its_edit_and_may_go_on(desk: Desk):
    work = desk.home / "work"
    work.mkdir(exist_ok=True)
    file = work / "version.py"
    file.write_text("VERSION = 1\n")
    if desk.program.name == "claude":
        (desk.home / ".claude").mkdir()
        (desk.home / ".claude" / "settings.json").write_text('{"permissions": {"defaultMode": "acceptEdits"}}', "utf-8")
    other = {"client": "cursor", "session": "other", "project": str(work)}
    with desk.palaver.rest() as api:
        api.post("/api/hooks/prompt", json=other | {"prompt": "Rename the version constant"}).raise_for_status()
        told = api.post("/api/hooks/edit", json=other | {"edit": "1", "files": [{"path": str(file)}]})
        assert told.raise_for_status().json()["decision"] == "go"
    *first, edit = edits(desk.program.name, str(file))
    was: list[str] = []

    def look() -> Call:
        was.append(file.read_text())
        return edit

    desk.calls = [*first, edit]
    desk.last = look
    read = desk.work("Bump the version")
    assert was == ["VERSION = 1\n"], "it was stopped the first time"
    stopped = [one for one in read if "palaver stopped this edit once" in one]
    assert len(stopped) >= 1
    assert "Rename the version constant" in stopped[0]
    assert file.read_text() == "VERSION = 2\n", "the same edit went through"
