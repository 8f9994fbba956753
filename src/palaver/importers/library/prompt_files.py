"""Prompts: Markdown with sections, files with front matter (`.prompt`, `.prompt.md`, `.prompty`), JSON or YAML lists.

Kept: name, author, details, system prompt, user prompt, keywords. Sections are `### TITLE ###`, `### AUTHOR ###`,
`### DETAILS ###`, `### SYSTEM ###`, `### USER ###` and `### KEYWORDS ###`, each once; every other heading is text. In a
file with front matter the text is the user prompt, up to a change of roles. A list has
`{name, author, details, system_prompt, user_prompt, keywords}`, or `messages` with roles, alone or under `prompts`.

Left out: models and their parameters, tools, schemas, examples, answers of an assistant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from palaver.importers import Unreadable, objects_of
from palaver.importers.files.json_stream import is_json
from palaver.importers.item import Item, Skipped, single_line
from palaver.importers.library import front_matter, item_text
from palaver.model.library import ImportedPiece, Prompt

name = "prompt"

MOST_YAML = 4 * 1024 * 1024

_FRONT = re.compile(r".+\.(?:prompt\.md|prompt|prompty)", re.IGNORECASE)
_YAML = re.compile(r".+\.ya?ml", re.IGNORECASE)
_NAMED = re.compile(r"(?:.+\.prompts?|prompts)\.(?:json|ya?ml)", re.IGNORECASE)
_FIELD = re.compile(rb"""(?:^|[\s{,"'-])["']?(?:system_prompt|user_prompt)["']?\s*:""")
_SECTION = re.compile(
    r"^###[ \t]*(TITLE|NAME|AUTHOR|DETAILS|DESCRIPTION|SYSTEM|USER|KEYWORDS)[ \t]*###[ \t]*\r?$", re.MULTILINE
)
_BEGINS = re.compile(
    r"\s*(?:---\r?\n.*?\n---[ \t]*\r?\n\s*)?"
    r"###[ \t]*(?:TITLE|NAME|AUTHOR|SYSTEM|USER|KEYWORDS)[ \t]*###[ \t]*\r?(?:\n|\Z)",
    re.DOTALL,
)
# A change of roles in a text: `system:` on a line of its own (prompty), `{{role "system"}}` (dotprompt).
_ROLE = re.compile(
    r"""^(system|user|assistant)[ \t]*:[ \t]*\r?$"""
    r"""|\{\{[ \t]*role[ \t]+["'](system|user|model|assistant)["'][ \t]*\}\}""",
    re.MULTILINE,
)
_NAMES = {
    "name": ("name", "title", "act"),
    "author": ("author", "authors", "creator"),
    "details": ("details", "description"),
    "system_prompt": ("system_prompt", "system"),
    "user_prompt": ("user_prompt", "user", "prompt", "template", "content"),
}


def recognises(item: Item, head: bytes) -> bool:
    file = item.file_name
    if not item_text.is_text(head):
        return False
    if _FRONT.fullmatch(file):
        return True
    if file.lower().endswith((".md", ".markdown", ".txt")):
        return bool(_BEGINS.match(item_text.decode_text(head[:8192])))
    if (file.lower().endswith(".json") and is_json(item, head)) or _YAML.fullmatch(file):
        return bool(_NAMED.fullmatch(file) or _FIELD.search(head))
    return False


def pieces(item: Item) -> Iterator[ImportedPiece | Skipped]:
    file = item.file_name.lower()
    if file.endswith(".json"):
        yield from _list(item, item_text.parse_json(item_text.read_bytes(item)))
    elif _YAML.fullmatch(file):
        yield from _list(item, front_matter.load(item_text.decode_text(item_text.read_bytes(item, MOST_YAML))))
    else:
        text = item_text.read_text(item)
        prompt = _sections(text) if _BEGINS.match(text) else _with_front_matter(text)
        given = prompt.name or re.sub(r"\.prompt\Z", "", item_text.title_from_name(item), flags=re.IGNORECASE)
        yield from _keep(item, replace(prompt, name=given))


def _keep(item: Item, prompt: Prompt, part: str = "") -> Iterator[ImportedPiece | Skipped]:
    if not (prompt.system_prompt.strip() or prompt.user_prompt.strip()):
        yield Skipped(item.name, "a prompt in which nothing is written")
    else:
        yield from item_text.keep_piece(item, name, prompt, part)


def _sections(text: str) -> Prompt:
    marks: dict[str, re.Match[str]] = {}
    for mark in _SECTION.finditer(text):  # a second one of the same name is text like any other
        marks.setdefault({"NAME": "TITLE", "DESCRIPTION": "DETAILS"}.get(mark[1], mark[1]), mark)
    found = dict(zip(marks, _parts_after(list(marks.values()), text), strict=True))
    return Prompt(
        name=found.get("TITLE", "").strip(),
        author=found.get("AUTHOR", "").strip(),
        details=found.get("DETAILS", ""),
        system_prompt=found.get("SYSTEM", ""),
        user_prompt=found.get("USER", ""),
        keywords=tuple(item_text.split_keywords(found.get("KEYWORDS", ""))),
    )


def _with_front_matter(text: str) -> Prompt:
    about, body = front_matter.split(text)
    known = ("name", "title", "author", "authors", "details", "description", "tags", "keywords")
    prompt = _prompt({key: about[key] for key in known if key in about})
    said: dict[str, list[str]] = {"system": [], "user": [], "assistant": [], "model": []}
    roles = list(_ROLE.finditer(body))
    before = body[: roles[0].start()] if roles else body
    said["user"] += [before] if before.strip() else []
    for role, part in zip(roles, _parts_after(roles, body), strict=True):
        said[role[1] or role[2]].append(part)
    return replace(prompt, system_prompt="\n\n".join(said["system"]), user_prompt="\n\n".join(said["user"]))


def _parts_after(marks: list[re.Match[str]], text: str) -> list[str]:
    """The text after each mark, up to the next one."""
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    return [text[mark.end() : end].strip("\r\n") for mark, end in zip(marks, ends, strict=False)]


def _list(item: Item, found: Any) -> Iterator[ImportedPiece | Skipped]:
    if isinstance(found, dict) and isinstance(found.get("prompts"), list | dict):
        found = found["prompts"]
    known = {*_NAMES["system_prompt"], *_NAMES["user_prompt"]}
    if (
        isinstance(found, dict)
        and not isinstance(found.get("messages"), list)
        and not any(isinstance(found.get(key), str) for key in known)
    ):
        found = [{"name": key, **value} for key, value in found.items() if isinstance(value, dict)]
    rows = found if isinstance(found, list) else [found] if isinstance(found, dict) else []
    prompts = [_prompt(row) for row in rows if isinstance(row, dict)]
    if not prompts:
        raise Unreadable("no prompts in it")
    for n, prompt in enumerate(prompts):
        is_one = len(prompts) == 1
        given = prompt.name or item_text.title_from_name(item) + ("" if is_one else f" {n + 1}")
        yield from _keep(item, replace(prompt, name=given), part="" if is_one else single_line(given))
    if len(prompts) < len(rows):
        yield Skipped(item.name, "something that is no prompt", len(rows) - len(prompts))


def _prompt(row: dict[str, Any]) -> Prompt:
    def text(field: str) -> str:
        for key in _NAMES[field]:
            value = row.get(key)
            if isinstance(value, list):
                value = ", ".join(one for one in value if isinstance(one, str))
            if isinstance(value, str) and value.strip() and value.strip() not in ("null", "~"):
                return value
        return ""

    said = {"system": [text("system_prompt")], "user": [text("user_prompt")]}
    for message in objects_of(row.get("messages")):
        match message:
            case {"role": "system" | "user" as role, "content": str(content)}:
                said[role].append(content)
    system, user = ("\n\n".join(filter(None, texts)) for texts in said.values())
    return Prompt(
        name=text("name").strip(),
        author=text("author").strip(),
        details=text("details"),
        system_prompt=system,
        user_prompt=user,
        keywords=tuple(item_text.split_keywords(row.get("keywords")) or item_text.split_keywords(row.get("tags"))),
    )
