"""Permission requests: a coding agent's hook asks whether a tool may run, and a person answers in the inbox.

Nothing is allowed by accident: only a person's "yes" to this very request allows it. Else the program asks at its
own prompt, or refuses where it has none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from textwrap import indent
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field

from palaver.errors import Refused
from palaver.model.people import Caller, Session
from palaver.model.requests import NEVER_STORED, Line, Metadata, NotBlank, clamp
from palaver.operations.bus.questions import end_question, put, wait_for_answer
from palaver.operations.catchup.hooks import HookReport, agent_of_session, caller_of
from palaver.operations.operation import Route, operation
from palaver.store.bus.questions import StoredQuestion
from palaver.store.engines.database import Change
from palaver.store.workspaces import Workspace

TOPIC = "Permission requests"
CHOICES = ["yes", "no"]
CODE = " " * 4
MOST_COMMAND = 20_000
"""Longer commands are not asked about: a person would not read them."""


class PermissionRequest(HookReport):
    tool: Annotated[Line, Field(max_length=200), NotBlank]
    """Name of the tool that shall run."""
    input: Metadata
    """Its arguments."""
    seconds: Annotated[int, clamp(0, 86_400)]
    """How long the program waits for the answer."""


@dataclass(frozen=True, slots=True)
class PermissionAnswer:
    """`decision` is empty if nobody answered. Then the program asks itself, or refuses. `reason` is for the model."""

    decision: Literal["allow", "deny", ""]
    reason: str


@operation(Route("POST", "/api/hooks/permission", ends_with_client=True))
async def ask_permission(workspace: Workspace, caller: Caller, request: PermissionRequest) -> PermissionAnswer:
    """Ask a person whether a coding agent may use a tool, and wait. It ends when the client goes away."""
    caller = caller_of(caller, request)
    command = command_of(request.input)
    if len(command) > MOST_COMMAND or NEVER_STORED.search(command):
        raise Refused(f"input: a person is asked about text of at most {MOST_COMMAND:,} characters without NUL.")

    folder = request.folder or request.project or ""
    about = {"program": caller.client.program, "tool": request.tool, "command": command, "folder": folder}
    text = f"May I use {request.tool} in {folder}?\n\n{indent(command, CODE, bool)}"

    def ask(change: Change) -> tuple[Caller, StoredQuestion]:
        agent, _ = agent_of_session(change, caller, request, "permission")
        asker = replace(caller, session=Session(agent_id=agent.id))
        return asker, put(change, asker, text, CHOICES, request.seconds, topic=TOPIC, permission=about)

    asker, stored = await workspace.change(ask)
    question_id = stored.question_id
    try:
        question = await wait_for_answer(workspace, asker, question_id, request.seconds)
    finally:
        await workspace.store_soon(lambda change: end_question(change, question_id), seconds=0)
    if question.state != "answered":
        return PermissionAnswer("", "")
    note = (question.answer or "").partition("\n\n")[2]
    reason = f"{question.answered_by} said {question.choice} in palaver{f': {note}' if note else '.'}"
    return PermissionAnswer("allow" if question.choice == "yes" else "deny", reason)


def command_of(arguments: dict[str, Any]) -> str:
    """What shall run, exactly. A shell command is shown as it is; other arguments one by one, their lines indented."""
    given = {name: value for name, value in arguments.items() if name != "description"}
    if list(given) == ["command"] and isinstance(given["command"], str):
        return str(given["command"])
    shown = {name: value if isinstance(value, str) else orjson.dumps(value).decode() for name, value in given.items()}
    return "\n".join(f"{name}: {value}".replace("\n", "\n    ") for name, value in shown.items())
