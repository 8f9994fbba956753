"""MCP prompts: the built-in ones for working with threads, and the prompts of the library."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palaver.errors import NotFound, Refused
from palaver.operations import library
from palaver.store.engines.database import Reader
from palaver.store.library import items as kept
from palaver.text.fence import fenced, mark_for

PAGE = 200
_PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_][\w.-]{0,60})\s*\}\}|\{([A-Za-z_]\w{0,60})\}")


@dataclass(frozen=True, slots=True)
class Argument:
    name: str
    description: str
    required: bool = True


@dataclass(frozen=True, slots=True)
class BuiltInPrompt:
    """A prompt of `agent_prompts.toml`. In its text §name§ is an argument, and ¶ begins or ends a fence around data."""

    name: str
    description: str
    arguments: tuple[Argument, ...]
    text: str

    def write(self, given: dict[str, str]) -> list[str]:
        """Fill in the arguments. Placeholders and fences inside an argument have no effect."""
        missing = [a.name for a in self.arguments if a.required and not given.get(a.name)]
        if missing:
            raise Refused(f"The prompt '{self.name}' needs: {', '.join(missing)}.")
        mark = mark_for(*given.values())
        pieces = []
        for piece in self.text.split("¶"):
            parts = enumerate(piece.split("§"))
            pieces.append("".join(given.get(part, "") or "(none)" if n % 2 else part for n, part in parts))
        return ["".join(fenced(piece, mark) if n % 2 else piece for n, piece in enumerate(pieces))]


@dataclass(frozen=True, slots=True)
class LibraryPrompt:
    """A prompt of the library. Its arguments are the names in braces."""

    name: str
    description: str
    arguments: tuple[Argument, ...]
    texts: tuple[str, ...]

    def write(self, given: dict[str, str]) -> list[str]:
        missing = [a.name for a in self.arguments if given.get(a.name) is None]
        if missing:
            raise Refused(f"The prompt '{self.name}' needs: {', '.join(missing)}.")
        return [_PLACEHOLDER.sub(lambda found: given[found[1] or found[2]], text) for text in self.texts]


def _built_in(name: str, description: str, text: str, arguments: Iterable[dict[str, Any]] = ()) -> BuiltInPrompt:
    return BuiltInPrompt(name, description, tuple(Argument(**one) for one in arguments), text)


_FILE = Path(__file__).with_name("agent_prompts.toml")
PROMPTS = tuple(_built_in(**one) for one in tomllib.loads(_FILE.read_text("utf-8"))["prompt"])


def page(read: Reader, offset: int) -> tuple[list[BuiltInPrompt | LibraryPrompt], int | None]:
    """One page of the prompts, built-in ones first, and the offset of the next page."""
    own = {prompt.name for prompt in PROMPTS}
    found: list[BuiltInPrompt | LibraryPrompt] = [*PROMPTS] if offset == 0 else []
    some = kept.page(read, "prompts", PAGE, offset)
    for one in some:
        if one.title and one.title not in own:
            own.add(one.title)
            found.append(_kept(read, one))
    return found, offset + PAGE if len(some) == PAGE else None


def named(read: Reader, name: str) -> BuiltInPrompt | LibraryPrompt:
    for prompt in PROMPTS:
        if prompt.name == name:
            return prompt
    found = kept.by_title(read, "prompts", name)
    if found is None:
        raise NotFound("prompt", name)
    return _kept(read, found)


def _kept(read: Reader, one: kept.LibraryItem) -> LibraryPrompt:
    shown = library.shown(read, one)
    texts = tuple(text for text in (shown.system_prompt, shown.user_prompt) if text) or (shown.details,)
    names = dict.fromkeys(found[1] or found[2] for text in texts for found in _PLACEHOLDER.finditer(text))
    arguments = tuple(Argument(name, f"Value for {name} in the prompt.") for name in names)
    return LibraryPrompt(
        shown.name, shown.details[:500] or f"A prompt by {shown.author or 'an unknown author'}.", arguments, texts
    )
