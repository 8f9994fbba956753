"""opencode. Servers are in `opencode.json` or `opencode.jsonc`, all in `~/.config/opencode`, skills in `skills`.

It has no hooks in its settings, but plugins: a file in `plugins` runs `palaver hook`.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from palaver.setup.client import NAME, Client, Edit, Machine, Member, Options, Server, skill
from palaver.setup.texts import MARK

NO_RETRIES = f"# {MARK}\nfetch-retries=0\n"
"""Before opencode loads a plugin, it waits for an npm package of its own. Without this, it waits for 70 seconds at each
start where npm cannot be reached (https://github.com/anomalyco/opencode/issues/47212)."""


def plugin(server: Server) -> str:
    """The plugin, with the path of this installation."""
    text = (files("palaver.setup.clients") / "opencode_plugin.js").read_text("utf-8")
    text = text.replace('COMMAND = "palaver"', f"COMMAND = {json.dumps(server.command, ensure_ascii=False)}")
    return text.replace("OPTIONS = []", f"OPTIONS = {json.dumps(server.data_options, ensure_ascii=False)}")


def is_installed(machine: Machine) -> bool:
    return (machine.folder("XDG_CONFIG_HOME", ".config") / "opencode").is_dir() or machine.has_program("opencode")


def edits(machine: Machine, server: Server, options: Options) -> list[Edit]:
    folder = machine.folder("XDG_CONFIG_HOME", ".config") / "opencode"
    path = next((folder / name for name in ("opencode.jsonc", "opencode.json") if (folder / name).exists()), None)
    entry: dict[str, Any] = {"type": "remote", "url": server.url, **server.headers}
    if server.use_stdio:
        entry = {"type": "local", "command": [server.command, *server.arguments]}
        entry |= {"environment": server.environment} if server.token else {}
    made = [Edit(path or folder / "opencode.json", "MCP server", (Member(("mcp", NAME), entry),))]
    if options.with_hooks:
        made.append(Edit(folder / "plugins" / "palaver.js", "hooks", text=plugin(server)))
        npm = folder / ".npmrc"
        if not npm.exists() or MARK.encode() in npm.read_bytes():
            made.append(Edit(npm, "npm settings", text=NO_RETRIES))
    if options.with_skill:
        made.append(skill(folder / "skills"))
    return made


CLIENT = Client("opencode", "opencode", is_installed, edits)
