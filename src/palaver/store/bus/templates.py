"""Templates: initial settings for new threads. Some are built in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from palaver.errors import Conflict, must_be_found
from palaver.model.messages import Template
from palaver.store.engines.database import Change, Reader
from palaver.store.rows import from_row, params_of


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


def everyone(read: Reader) -> list[Template]:
    return [*BUILT_IN, *(from_row(Template, row, is_builtin=False) for row in read.all("templates"))]


def must_exist(read: Reader, template_id: str) -> Template:
    known = next((one for one in everyone(read) if one.id == template_id), None)
    return must_be_found(known, "template", template_id, "List templates to see which exist.")


def create(change: Change, template: Template) -> Template:
    is_taken = any(one.id == template.id for one in BUILT_IN)
    if is_taken or not change.run("insert_template", **_params(template)):
        raise Conflict(f"There is already a template '{template.id}'. Choose another id.")
    return must_exist(change, template.id)


def _params(template: Template) -> dict[str, Any]:
    params = params_of(replace(template, default_metadata=template.default_metadata or None))
    return {name: value for name, value in params.items() if name != "is_builtin"}


def update(change: Change, template: Template) -> Template:
    """Store what is new in a template."""
    if template.is_builtin:
        raise Conflict(f"'{template.id}' is built in and cannot be changed. Create a template with its rules.")
    change.run("update_template", **_params(template))
    return must_exist(change, template.id)


def remove(change: Change, template: Template) -> None:
    if template.is_builtin:
        raise Conflict(f"'{template.id}' is built in and cannot be deleted.")
    change.run("delete_template", id=template.id)
