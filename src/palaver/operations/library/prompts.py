"""Prompts of the library. They can be read and changed by their name, too."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from palaver.model.library import Prompt
from palaver.model.requests import Line
from palaver.operations.library.items import Content, Created, ItemSource, Keywords, operations_of
from palaver.operations.operation import Command
from palaver.search.sources.indexing import index_prompt


class CreatePrompt(Created):
    name: Annotated[Line, Field(min_length=1)]
    """Name of the prompt."""
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


PROMPTS = ItemSource(
    name="prompts",
    noun="prompt",
    key="prompt_id",
    key_help="Id or name of the prompt.",
    piece=Prompt,
    index=index_prompt,
    creates=CreatePrompt,
    help={
        "create": "Store a prompt. MCP clients list it among their prompts, with one argument for each {{name}} in it.",
        "read": "Get one prompt by id or name.",
        "list": "List prompts, last changed first.",
    },
    columns=("id", "name", "author", "keywords"),
    commands={
        "create": Command("prompt add", takes=("name",)),
        "update": Command("prompt edit", takes=("prompt_id",)),
    },
)
OPERATIONS = operations_of(PROMPTS)
create_prompt, read_prompt, update_prompt, list_prompts, delete_prompt, restore_prompt = OPERATIONS
