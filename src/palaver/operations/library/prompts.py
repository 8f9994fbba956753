"""Prompts of the library: create, read, update, list."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated

from pydantic import Field

from palaver.model.library import ItemDraft, Prompt
from palaver.model.people import Caller
from palaver.model.requests import AnyId, Line, Request
from palaver.operations.library.items import (
    WRITING,
    Content,
    Created,
    Keywords,
    Listing,
    VersionedEdit,
    add_item,
    current,
    given,
    texts_of,
    update_item,
    uri_of,
)
from palaver.operations.operation import Command, Route, Tool, operation
from palaver.search.sources.prompts import PROMPT_TEXTS, index_prompt
from palaver.store.engines.database import Reader
from palaver.store.library import items
from palaver.store.library.items import LibraryItem
from palaver.store.workspaces import Workspace


@dataclass(frozen=True, slots=True)
class KeptPrompt:
    id: str
    name: str
    author: str
    details: str
    system_prompt: str
    user_prompt: str
    keywords: list[str]
    created_at: datetime
    last_modified: datetime
    version: int
    uri: str


class PromptTexts(Request):
    author: Line | None = None
    """Author of the prompt."""
    details: Content | None = None
    """What the prompt is for."""
    system_prompt: Content | None = None
    """System prompt for the model."""
    user_prompt: Content | None = None
    """User prompt. {{name}} is a placeholder for an argument."""
    keywords: Keywords | None = None
    """Keywords for search."""


class CreatePrompt(PromptTexts, Created):
    name: Annotated[Line, Field(min_length=1)]
    """Name of the prompt."""


class OnePrompt(Request):
    prompt_id: AnyId
    """Id or name of the prompt."""


class UpdatePrompt(PromptTexts, VersionedEdit):
    prompt_id: AnyId
    """Id or name of the prompt."""
    name: Annotated[Line, Field(min_length=1)] | None = None
    """New name."""


def find_prompt(read: Reader, name: int | str, version: int | None = None) -> LibraryItem:
    """The prompt with this id, or the last changed one with this name."""
    if items.find(read, "prompts", str(name)) is None:
        found = items.by_title(read, "prompts", str(name))
        if found:
            return current(read, "prompts", found.id, version)
    return current(read, "prompts", name, version)


def prompt_of(read: Reader, kept: LibraryItem) -> KeptPrompt:
    bodies = items.bodies(read, kept.document_id)
    return KeptPrompt(
        id=kept.id,
        name=kept.title or "",
        **texts_of(bodies, PROMPT_TEXTS),
        keywords=kept.facts.get("keywords") or [],
        created_at=kept.created_at,
        last_modified=kept.last_modified,
        version=kept.version,
        uri=uri_of(kept),
    )


def _prompt_with(piece: Prompt, request: PromptTexts) -> Prompt:
    return replace(piece, **given(request, (*PROMPT_TEXTS, "keywords")))


@operation(
    Tool("prompts.create", toolset=WRITING),
    Route("POST", "/api/prompts", status=201),
    Command("prompt add", takes=("name",)),
)
async def create_prompt(workspace: Workspace, caller: Caller, request: CreatePrompt) -> KeptPrompt:
    """Store a prompt. MCP clients list it among their prompts, with one argument for each {{name}} in it."""
    piece = _prompt_with(Prompt(name=request.name), request)
    return await add_item(workspace, "prompts", lambda: index_prompt(piece), prompt_of, request.at)


@operation(Route("GET", "/api/prompts/{prompt_id:name}"), Command("prompt show", takes=("prompt_id",)))
def read_prompt(read: Reader, caller: Caller, request: OnePrompt) -> KeptPrompt:
    """Get one prompt by id or name."""
    return prompt_of(read, find_prompt(read, request.prompt_id))


@operation(
    Tool("prompts.update", toolset=WRITING),
    Route("PUT", "/api/prompts/{prompt_id:name}"),
    Command("prompt edit", takes=("prompt_id",)),
)
async def update_prompt(workspace: Workspace, caller: Caller, request: UpdatePrompt) -> KeptPrompt:
    """Update a prompt. Fields you leave out do not change."""

    def look(read: Reader) -> tuple[LibraryItem, ItemDraft]:
        kept = find_prompt(read, request.prompt_id, request.version)
        old = Prompt(
            name=request.name or kept.title or "",
            **texts_of(items.bodies(read, kept.document_id), PROMPT_TEXTS),
            keywords=tuple(kept.facts.get("keywords") or ()),
        )
        return kept, index_prompt(_prompt_with(old, request))

    return await update_item(workspace, look, prompt_of, request.version)


@operation(Route("GET", "/api/prompts"), Command("prompt list", columns=("id", "name", "author", "keywords")))
def list_prompts(read: Reader, caller: Caller, request: Listing) -> list[KeptPrompt]:
    """List prompts, last changed first."""
    return [prompt_of(read, kept) for kept in items.page(read, "prompts", request.limit, request.offset)]
