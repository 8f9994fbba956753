"""Arguments that programs written for AgentChatBus pass: they are obeyed, or ignored with a hint."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from palaver.errors import Invalid
from palaver.model.messages import Message
from palaver.model.requests import is_true

TOOLS = ("bus_connect", "msg_list", "msg_wait", "msg_get")
ATTACHMENTS = ("images", "files", "attachments")
ONLY_JSON = "return_format: answers are always JSON."
RULES = "include_system_prompt: bus_connect and thread_get give the rules of a thread."


@dataclass(frozen=True, slots=True)
class Form:
    """The form in which a program wants its messages."""

    hint: str | None = None
    without_attachments: bool = False

    def of(self, answer: Any) -> Any:
        """The answer in this form."""
        if not self.without_attachments:
            return answer
        if isinstance(answer, Message):
            kept = {name: value for name, value in (answer.metadata or {}).items() if name not in ATTACHMENTS}
            return replace(answer, metadata=kept or None)
        return replace(answer, messages=[self.of(message) for message in answer.messages])


def take_form(tool: str, given: dict[str, Any]) -> Form:
    """Read the form, and remove its arguments from those of the tool."""
    if tool not in TOOLS:
        return Form()
    format = given.pop("return_format", "json")
    if format not in ("json", "blocks"):
        raise Invalid("return_format: must be json or blocks.")
    hints = [ONLY_JSON] if format == "blocks" else []
    hints += [RULES] if is_true(given.pop("include_system_prompt", False), "include_system_prompt") else []
    has_attachments = is_true(given.pop("include_attachments", True), "include_attachments")
    return Form(" ".join(hints) or None, not has_attachments)
