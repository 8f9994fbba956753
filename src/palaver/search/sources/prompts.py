"""Prompts: a name, a system prompt, a user prompt, details, an author and keywords."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from palaver.model.library import ItemDraft, Prompt
from palaver.model.people import Caller
from palaver.search.sources import tokens
from palaver.search.sources.indexing import cut, labels
from palaver.search.sources.shapes import Fields, SourceFilters
from palaver.store.engines.database import Reader, Scope

PROMPT_TEXTS = ("details", "system_prompt", "user_prompt", "author")
PromptField = Literal["name", "details", "system_prompt", "user_prompt", "author", "keywords"]


class PromptsFilters(SourceFilters):
    fields: Annotated[list[PromptField], Field(max_length=20)] | None = None
    """Look only in these fields."""

    def scope(self, read: Reader, caller: Caller) -> Scope | None:
        fields = tuple(tokens.field(name) for name in self.fields or ())
        return Scope(("prompts",), any_of=(fields,) if fields else ())


class Prompts(Fields):
    name = "prompts"
    filters = PromptsFilters
    fields = PROMPT_TEXTS
    search_help = "Search prompts by name, text, author or keywords, best match first."
    get_help = "Open a prompt by its id or its name: all its fields, or a part of one."
    id_field, id_help = "prompt_id_or_name", "Id or name of the prompt."


def index_prompt(prompt: Prompt) -> ItemDraft:
    texts = {name: getattr(prompt, name) for name in PROMPT_TEXTS}
    found = [draft for name, text in texts.items() for draft in cut(text, name, (tokens.field(name),))]
    own = (tokens.field("keywords"), *(tokens.keyword(keyword) for keyword in prompt.keywords))
    found += labels("keywords", prompt.keywords, own)
    return ItemDraft(
        title=prompt.name,
        facts={"author": prompt.author, "keywords": list(prompt.keywords)},
        bodies=texts,
        passages=tuple(found),
        title_scopes=(tokens.field("name"),),
    )
