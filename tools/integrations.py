"""Write the packages in `integrations/`, the marketplace and `server.json`. Run by `make reference`.

The hooks and the skill are those of `palaver setup`, so that both stay the same.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from palaver import __version__
from palaver.setup.agents_md import AGENTS_BLOCK, BEGIN, END
from palaver.setup.clients import BY_NAME, SKILL_BODY, SKILL_DESCRIPTION, WAIT, Options

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
HOME_PAGE = PROJECT["urls"]["Homepage"]
REGISTRY_NAME = "io.github." + HOME_PAGE.removeprefix("https://github.com/")
SUMMARY = "A message bus and a memory shared by AI agents and people."
STDIO = {"command": "palaver", "args": ["mcp", "--toolsets", "core"]}
COMMANDS = {
    "catchup": (
        "Show what happened on palaver since the last time.",
        "Call the tool catch_up of the MCP server palaver for this project. Report, in this order: messages that name "
        "you, open questions, decisions, other news. Be short. Answer nothing on the bus unless asked.",
    ),
    "recall": (
        "Search palaver's memory.",
        "Search palaver's memory with the tool knowledge_search for the text below. Open the best results with "
        "knowledge_get. Answer from them, with the place of each fact. If nothing fits, say so.",
    ),
}
"""Commands of the packages: name to description and prompt."""

SKILL = f"---\nname: palaver\ndescription: {SKILL_DESCRIPTION}\n---\n\n{SKILL_BODY}"

NEEDS = """\
It runs `palaver` from the PATH. Install it first:

```console
$ uv tool install palaver-bus
```

Without `palaver` the hooks do nothing. `make reference` writes this folder from the code.
"""


def hook_command(event: str, client: str) -> str:
    """The shell command of a hook. If palaver is not installed, it does nothing and succeeds."""
    if event == WAIT:
        return f"command -v palaver >/dev/null 2>&1 || exit 0; exec palaver hook {event} --client {client}"
    return f"command -v palaver >/dev/null 2>&1 && palaver hook {event} --client {client} || true"


def hooks(client: str) -> dict[str, Any]:
    items = BY_NAME[client].hooks(lambda event: hook_command(event, client), Options())
    return {"hooks": {item.path[-1]: [item.value] for item in items if item.value}}


def claude_plugin() -> dict[str, str]:
    about = {
        "name": "palaver",
        "description": SUMMARY,
        "version": __version__,
        "author": {"name": "The palaver contributors"},
        "homepage": HOME_PAGE,
        "repository": HOME_PAGE,
        "license": "MIT",
        "keywords": PROJECT["keywords"],
    }
    made = {
        ".claude-plugin/plugin.json": _json(about),
        ".mcp.json": _json({"mcpServers": {"palaver": STDIO}}),
        "hooks/hooks.json": _json(hooks("claude-code")),
        "skills/palaver/SKILL.md": SKILL,
        "README.md": (
            "# palaver for Claude Code\n\nA plugin with the MCP server, hooks, a skill and the commands `/catchup` and "
            f"`/recall`.\n\n```console\n$ claude plugin marketplace add {HOME_PAGE.removeprefix('https://github.com/')}\n"
            f"$ claude plugin install palaver@palaver\n```\n\n{NEEDS}"
        ),
    }
    for name, (description, prompt) in COMMANDS.items():
        head = f"---\ndescription: {description}\n" + ('argument-hint: "[question]"\n' if name == "recall" else "")
        made[f"commands/{name}.md"] = f"{head}---\n\n{prompt}\n\n$ARGUMENTS\n"
    return {f"integrations/claude-code/{path}": text for path, text in made.items()}


def gemini_extension() -> dict[str, str]:
    about = {
        "name": "palaver",
        "version": __version__,
        "description": SUMMARY,
        "mcpServers": {"palaver": STDIO},
        "contextFileName": "GEMINI.md",
    }
    made = {
        "gemini-extension.json": _json(about),
        "hooks/hooks.json": _json(hooks("gemini-cli")),
        "skills/palaver/SKILL.md": SKILL,
        "GEMINI.md": AGENTS_BLOCK.removeprefix(f"{BEGIN}\n").removesuffix(f"{END}\n"),
        "README.md": (
            "# palaver for Gemini CLI\n\nAn extension with the MCP server, hooks, a skill and the commands `/catchup` "
            f"and `/recall`.\n\n```console\n$ git clone {HOME_PAGE}\n"
            f"$ gemini extensions install palaver/integrations/gemini-cli\n```\n\n{NEEDS}"
        ),
    }
    for name, (description, prompt) in COMMANDS.items():
        made[f"commands/{name}.toml"] = (
            f"description = {json.dumps(description)}\nprompt = {json.dumps(prompt + chr(10) * 2 + '{{args}}')}\n"
        )
    return {f"integrations/gemini-cli/{path}": text for path, text in made.items()}


def marketplace() -> dict[str, Any]:
    plugin = {
        "name": "palaver",
        "source": "./integrations/claude-code",
        "description": SUMMARY,
        "category": "productivity",
    }
    return {
        "name": "palaver",
        "description": "The palaver plugin for Claude Code.",
        "owner": {"name": "The palaver contributors"},
        "plugins": [plugin],
    }


def server_json() -> dict[str, Any]:
    package = {"registryType": "pypi", "identifier": PROJECT["name"], "version": __version__, "runtimeHint": "uvx"}
    port = {"type": "named", "name": "--port", "description": "Port to listen on.", "default": "39765"}
    stdio = {"packageArguments": [{"type": "positional", "value": "mcp"}], "transport": {"type": "stdio"}}
    http = {
        "packageArguments": [{"type": "positional", "value": "serve"}, port],
        "transport": {"type": "streamable-http", "url": "http://127.0.0.1:{--port}/mcp"},
    }
    return {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": REGISTRY_NAME,
        "title": "palaver",
        "description": SUMMARY,
        "version": __version__,
        "repository": {"url": HOME_PAGE, "source": "github"},
        "packages": [{**package, **stdio}, {**package, **http}],
    }


def pages() -> dict[str, str]:
    """Every file by its path in the repository."""
    return {
        **claude_plugin(),
        **gemini_extension(),
        ".claude-plugin/marketplace.json": _json(marketplace()),
        "server.json": _json(server_json()),
    }


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def write() -> None:
    for path, text in pages().items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text, "utf-8")


if __name__ == "__main__":
    write()
