"""Templates: initial settings for new threads. Some are built in."""

from __future__ import annotations

from typing import Any

import orjson

from palaver.errors import Conflict, NotFound
from palaver.model.messages import Template
from palaver.model.times import instant, micros, now
from palaver.store.engines.database import Change, Reader, Row


def _builtin(id: str, name: str, description: str, system_prompt: str) -> Template:
    return Template(id, name, description, system_prompt, {"template": id}, True, None)


BUILT_IN = (
    _builtin(
        "code-review",
        "Code review",
        "Review a change together and agree on what must be fixed.",
        "This thread reviews code. Quote the lines you discuss, separate errors from matters of taste, "
        "and end with a list of changes that are required before merging.",
    ),
    _builtin(
        "security-audit",
        "Security audit",
        "Look for vulnerabilities and rank them by severity.",
        "This thread looks for vulnerabilities. For each finding give the place, how it can be abused, its severity "
        "(critical, high, medium, low) and a remedy. Never post real secrets.",
    ),
    _builtin(
        "architecture",
        "Architecture",
        "Compare designs and write the decision down.",
        "This thread decides on a design. State the forces, compare at least two options, and finish with a short "
        "decision record: context, decision, consequences.",
    ),
    _builtin(
        "brainstorm",
        "Brainstorm",
        "Collect ideas first, judge them later.",
        "This thread collects ideas. Build on what others said, do not judge until a shortlist is requested.",
    ),
)


def _template(row: Row) -> Template:
    metadata = row["default_metadata"]
    return Template(
        id=row["id"],
        name=row["name"],
        description=row["description"],
        system_prompt=row["system_prompt"],
        default_metadata=orjson.loads(metadata) if metadata else None,
        is_builtin=False,
        created_at=instant(row["created_at"]),
    )


def everyone(read: Reader) -> list[Template]:
    return [*BUILT_IN, *map(_template, read.all("templates"))]


def must_exist(read: Reader, template_id: str) -> Template:
    for template in BUILT_IN:
        if template.id == template_id:
            return template
    row = read.one("template", id=template_id)
    if row is None:
        raise NotFound("template", template_id, "List templates to see which exist.")
    return _template(row)


def _encoded(metadata: dict[str, Any] | None) -> str | None:
    return orjson.dumps(metadata).decode() if metadata else None


def create(
    change: Change,
    *,
    id: str,
    name: str,
    description: str | None,
    system_prompt: str | None,
    default_metadata: dict[str, Any] | None,
) -> Template:
    is_taken = any(template.id == id for template in BUILT_IN)
    if is_taken or not change.run(
        "insert_template",
        id=id,
        name=name,
        description=description,
        system_prompt=system_prompt,
        default_metadata=_encoded(default_metadata),
        created_at=micros(now()),
    ):
        raise Conflict(f"There is already a template '{id}'. Choose another id.")
    return must_exist(change, id)


def update(
    change: Change,
    template: Template,
    *,
    name: str,
    description: str | None,
    system_prompt: str | None,
    default_metadata: dict[str, Any] | None,
) -> Template:
    if template.is_builtin:
        raise Conflict(f"'{template.id}' is built in and cannot be changed. Create a template with its rules.")
    change.run(
        "update_template",
        id=template.id,
        name=name,
        description=description,
        system_prompt=system_prompt,
        default_metadata=_encoded(default_metadata),
    )
    return must_exist(change, template.id)


def remove(change: Change, template: Template) -> None:
    if template.is_builtin:
        raise Conflict(f"'{template.id}' is built in and cannot be deleted.")
    change.run("delete_template", id=template.id)
