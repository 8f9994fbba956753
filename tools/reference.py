"""Writes docs/reference from the code: `make reference`. A test fails when the pages are not what this gives."""

from __future__ import annotations

import sys
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from palaver.doors.http.openapi import body_of, document
from palaver.doors.mcp.tools import by_name, described
from palaver.operations import OPERATIONS
from palaver.operations.bus import agent_prompts, resources
from palaver.settings import Settings

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference"
MADE = "<!-- Made by tools/reference.py; change the code instead. -->\n\n"


def tools_page() -> str:
    lines = ["# Tools", "", "What agents can call. Arguments marked * are required; `null` counts as absent.", ""]
    for operation in OPERATIONS:
        for tool in operation.tools:
            shown = described(tool.name, dotted=False)
            kind = "reads" if operation.is_read_only else "changes"
            lines += [f"## `{shown.name}`", "", f"{_line(operation.description)} *({tool.toolset}; {kind})*", ""]
            lines += _fields(shown.input_schema.get("properties", {}), shown.input_schema.get("required", []))
    assert by_name()
    lines += ["# Resources", "", "| address | what it is |", "|---|---|"]
    lines += [f"| `{r.uri}` | {r.description} |" for r in (*resources.FIXED, *resources.BY_ID)]
    lines += ["", "# Prompts", "", "| name | what it is for | arguments |", "|---|---|---|"]
    for prompt in agent_prompts.PROMPTS:
        names = ", ".join(f"`{a.name}`{' *' if a.required else ''}" for a in prompt.arguments)
        lines.append(f"| `{prompt.name}` | {prompt.description} | {names} |")
    return "\n".join(lines) + "\n"


def rest_page() -> str:
    lines = ["# REST", "", 'Errors are `{"detail": …}` with a status that fits. Fields marked * are required.', ""]
    for path, methods in document()["paths"].items():
        for method, said in methods.items():
            status = next(iter(said["responses"]))
            lines += [f"## `{method.upper()} {path}`", "", f"{_line(said['description'])} *({status})*", ""]
            properties = {p["name"]: p["schema"] for p in said.get("parameters", [])}
            required = [p["name"] for p in said.get("parameters", []) if p["required"]]
            body = body_of(said)
            properties |= body.get("properties", {})
            lines += _fields(properties, required + body.get("required", []))
    lines += [
        "## For the console and for reading",
        "",
        "| route | what it does |",
        "|---|---|",
        "| `GET`, `POST`, `DELETE /api/session` | the console's login: who is in, come in with `{token}`, go again |",
        "| `GET /openapi.json`, `/docs` | this, for programs and for people |",
    ]
    return "\n".join(lines) + "\n"


def commands_page() -> str:
    lines = ["# Commands made from operations", "", "`palaver COMMAND --help` shows the options of each.", ""]
    lines += ["| command | what it does |", "|---|---|"]
    for operation in OPERATIONS:
        for command in operation.commands:
            takes = " ".join(
                [*(name.upper() for name in command.takes), *([f"{command.rest.upper()}…"] if command.rest else [])]
            )
            lines.append(f"| `palaver {f'{command.name} {takes}'.strip()}` | {_line(operation.description)} |")
    return "\n".join(lines) + "\n"


def settings_page() -> str:
    lines = [
        "# Settings",
        "",
        "A flag wins over the environment, the environment over `palaver.toml` (at the top or under `[palaver]`).",
        "",
    ]
    lines += ["| variable | in palaver.toml | default | meaning |", "|---|---|---|---|"]
    for knob in fields(Settings):
        assert knob.default is not MISSING
        names = ", ".join(f"`{name}`" for name in (f"PALAVER_{knob.name.upper()}", *knob.metadata["also"]))
        default = "" if knob.default in (None, "", ()) else f"`{knob.default}`"
        lines.append(f"| {names} | `{knob.name}` | {default} | {knob.metadata['help']} |")
    return "\n".join(lines) + "\n"


def _line(text: str) -> str:
    return " ".join(text.split())


def _fields(properties: dict[str, Any], required: list[str]) -> list[str]:
    if not properties:
        return []
    lines = ["| name | type | default | meaning |", "|---|---|---|---|"]
    for name, field in properties.items():
        star = " *" if name in required else ""
        default = "" if field.get("default") is None else f"`{field['default']}`"
        lines.append(f"| `{name}`{star} | {_type(field)} | {default} | {_line(field.get('description', ''))} |")
    return [*lines, ""]


def _type(field: dict[str, Any]) -> str:
    if "enum" in field:
        return " \\| ".join(f"`{choice}`" for choice in field["enum"])
    if "anyOf" in field:
        return " or ".join(_type(choice) for choice in field["anyOf"] if choice.get("type") != "null")
    if field.get("type") == "array":
        return f"list of {_type(field.get('items', {}))}"
    return str(field.get("type", "any"))


def pages() -> dict[str, str]:
    made = {"tools": tools_page(), "rest": rest_page(), "commands": commands_page(), "settings": settings_page()}
    return {f"{name}.md": MADE + text for name, text in made.items()}


def main() -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
