"""The marked block in AGENTS.md and CLAUDE.md. Taking it out leaves every other byte as it was."""

from __future__ import annotations

import os
import re
from pathlib import Path

from palaver.errors import Refused

AGENTS_BLOCK = Path(__file__).with_name("agents_block.md").read_text("utf-8")
BEGIN, END = "<!-- palaver:begin -->", "<!-- palaver:end -->"
_BLOCK = re.compile(rf"{re.escape(BEGIN)}.*?{re.escape(END)}(?:\r?\n)?", re.DOTALL)


def places(folder: Path, named: str) -> list[Path]:
    """The files to edit: the named one and, for AGENTS.md, CLAUDE.md if it exists and does not include AGENTS.md.

    A repository may contain links to other files of the user. They are not followed.
    """
    first = folder / named
    other = folder / "CLAUDE.md"
    for path in (first, other):
        _refuse_link_out(folder, path)
    if named != "AGENTS.md" or not other.is_file():
        return [first]
    if first.exists() and other.samefile(first):
        return [first]
    return [first] if re.search(r"(?m)^@\.?/?AGENTS\.md\s*$", other.read_text("utf-8", "replace")) else [first, other]


def _refuse_link_out(folder: Path, path: Path) -> None:
    inside = os.path.realpath(folder)
    real = os.path.realpath(path)
    if real != os.path.normpath(inside / path.relative_to(folder)) and not Path(real).is_relative_to(inside):
        raise Refused(
            f"{path.name} is a link to a file outside this folder. Replace the link, or edit that file by hand."
        )


def add(text: str | None) -> str:
    """The text with the block at its end, or with the block replaced. None is a file that does not exist."""
    if text is None:
        return AGENTS_BLOCK
    end = "\r\n" if "\r\n" in text else "\n"
    block = AGENTS_BLOCK.replace("\n", end)
    if _is_marked(text):
        return _BLOCK.sub(lambda _: block, text, count=1)
    return text + end + block


def take_out(text: str) -> str | None:
    """The text without the block. None if the file was made for the block and has nothing else in it."""
    if not _is_marked(text):
        return text
    found = _BLOCK.search(text)
    assert found is not None
    if found.start() == 0 and found.end() == len(text):
        return None
    before = re.sub(r"\r?\n\Z", "", text[: found.start()], count=1)
    return before + text[found.end() :]


def _is_marked(text: str) -> bool:
    counts = text.count(BEGIN), text.count(END)
    if counts == (0, 0):
        return False
    if counts != (1, 1) or text.index(BEGIN) > text.index(END):
        raise Refused(f"The file must contain '{BEGIN}' and '{END}' once, in this order. Correct it by hand.")
    return True
