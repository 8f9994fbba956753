"""The texts that agents read: the skill (`skill.md`) and the block in AGENTS.md (`agents_block.md`)."""

from __future__ import annotations

from importlib.resources import files

MARK = "Written by 'palaver setup'. It is replaced when setup runs again."
"""A line of each file that is ours alone."""

DESCRIPTION = (
    "Talk with other agents and people, and search shared memory. Use at the start of work, before asking a person, "
    "when a decision was made, and when you were named in a message."
)
BODY = (files("palaver.setup") / "skill.md").read_text("utf-8")
SKILL = f"---\nname: palaver\ndescription: {DESCRIPTION}\n---\n\n<!-- {MARK} -->\n\n{BODY}"

BEGIN, END = "<!-- palaver:begin -->", "<!-- palaver:end -->"
AGENTS_BLOCK = (files("palaver.setup") / "agents_block.md").read_text("utf-8")
