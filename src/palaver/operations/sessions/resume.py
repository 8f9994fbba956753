"""How to go on with a session in the program it comes from."""

from __future__ import annotations

import re
from dataclasses import dataclass

from palaver.model.people import program_of

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


@dataclass(frozen=True, slots=True)
class Resume:
    """A command for a terminal, or an address for a browser."""

    program: str
    command: str | None = None
    url: str | None = None


_PROGRAMS: dict[str, tuple[str, re.Pattern[str], str]] = {
    "claude-code": ("Claude Code", re.compile(UUID), "claude --resume {id}"),
    "codex": ("Codex", re.compile(UUID), "codex resume {id}"),
    "gemini-cli": ("Gemini CLI", re.compile(UUID), "gemini --resume {id}"),
    "opencode": ("opencode", re.compile(r"ses_[0-9A-Za-z]{10,40}"), "opencode -s {id}"),
    "copilot": ("GitHub Copilot CLI", re.compile(UUID), "copilot --resume={id}"),
    "chatgpt": ("ChatGPT", re.compile(UUID), "https://chatgpt.com/c/{id}"),
    "canonical-db": ("ChatGPT", re.compile(UUID), "https://chatgpt.com/c/{id}"),
    "claude-ai": ("Claude", re.compile(UUID), "https://claude.ai/chat/{id}"),
}
"""By importer or agent: the name of the program, the form of its ids, and the command or address."""


def resume_of(program: str, id: str) -> Resume | None:
    """How to resume a session; None if the program cannot, or if its id has another form (as subagents have)."""
    program = program_of(program)
    known = _PROGRAMS.get(program)
    if program == "codex":
        id = id.partition("_")[0]  # a session may go on in a second file, whose id is longer
    if known is None or not known[1].fullmatch(id):
        return None
    name, _, form = known
    text = form.format(id=id)
    return Resume(name, url=text) if text.startswith("https://") else Resume(name, command=text)
