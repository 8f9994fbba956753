"""Thread templates: list, get, create, update, delete."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import Field

from palaver.model.messages import Template
from palaver.model.people import Caller
from palaver.model.requests import Id, Line, Metadata, NoArguments, Request, Text
from palaver.model.times import now
from palaver.operations.bus.agents import Ok
from palaver.operations.bus.content_filter import refuse_secrets
from palaver.operations.operation import Command, Route, Tool, only, operation
from palaver.store.bus import templates
from palaver.store.engines.database import Change, Reader


@dataclass(frozen=True, slots=True)
class Templates:
    templates: list[Template]


@operation(
    Tool("template_list"),
    Route("GET", "/api/templates", show=only(Templates, "templates")),
    Command("template list", columns=("id", "name", "description", "is_builtin"), rows="templates"),
)
def list_templates(read: Reader, caller: Caller, request: NoArguments) -> Templates:
    """List the thread templates, built-in ones first."""
    return Templates(templates.everyone(read))


class OneTemplate(Request):
    template_id: Id
    """Id of the template."""


@operation(
    Tool("template_get"), Route("GET", "/api/templates/{template_id}"), Command("template show", takes=("template_id",))
)
def get_template(read: Reader, caller: Caller, request: OneTemplate) -> Template:
    """Get one template with its rules and default metadata."""
    return templates.must_exist(read, request.template_id)


class CreateTemplate(Request):
    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    """A short id, e.g. my-review."""
    name: Annotated[Line, Field(min_length=1, max_length=200)]
    """A name for people to see."""
    description: Line | None = None
    """When to use it."""
    system_prompt: Text | None = None
    """Rules for threads that use it."""
    default_metadata: Metadata | None = None
    """Metadata for threads that use it."""


@operation(
    Tool("template_create"),
    Route("POST", "/api/templates", status=201),
    Command("template create", takes=("id", "name")),
)
def create_template(change: Change, caller: Caller, request: CreateTemplate) -> Template:
    """Create a thread template. An existing id cannot be overwritten."""
    refuse_secrets(change, request.system_prompt, "system_prompt")
    return templates.create(change, Template(**request.model_dump(), is_builtin=False, created_at=now()))


class UpdateTemplate(OneTemplate):
    name: Annotated[Line, Field(min_length=1, max_length=200)] | None = None
    """A new name."""
    description: Line | None = None
    """When to use it. An empty text removes it."""
    system_prompt: Text | None = None
    """New rules. An empty text removes them."""
    default_metadata: Metadata | None = None
    """New metadata for threads that use it. It replaces the old one."""


@operation(Route("PUT", "/api/templates/{template_id}"), Command("template update", takes=("template_id",)))
def update_template(change: Change, caller: Caller, request: UpdateTemplate) -> Template:
    """Update a template that is not built in. Fields you leave out and threads that used it do not change."""
    refuse_secrets(change, request.system_prompt, "system_prompt")
    old = templates.must_exist(change, request.template_id)
    given = request.model_dump(exclude={"template_id"}, exclude_none=True)
    emptied: dict[str, Any] = {name: given[name] or None for name in ("description", "system_prompt") if name in given}
    return templates.update(change, replace(old, **given | emptied))


@operation(Route("DELETE", "/api/templates/{template_id}"), Command("template delete", takes=("template_id",)))
def delete_template(change: Change, caller: Caller, request: OneTemplate) -> Ok:
    """Delete a template that is not built in. Threads that used it do not change."""
    templates.remove(change, templates.must_exist(change, request.template_id))
    return Ok(True)
