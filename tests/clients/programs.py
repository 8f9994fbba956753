"""The clients: where each comes from, how it is pointed at the scripted model, and how it is run without a person.

How a client connects to palaver is not here: it is read from the table in docs/guides/clients.md.
"""

from __future__ import annotations

import json
import platform
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
AGENTS = Path(__file__).parent / "agents"
GUIDE_URL = "http://127.0.0.1:39765/mcp"


@dataclass(frozen=True)
class Start:
    """What a client needs to know to be started."""

    home: Path
    """Its HOME: empty at first, and nobody else's."""

    place: Path
    """Where it is installed."""

    mcp_url: str
    model_url: str


@dataclass(frozen=True)
class Program:
    """A client. A new one is a new row in PROGRAMS."""

    name: str
    package: str
    version: str
    """The version that `make test` runs. `make clients` runs the newest one."""

    command: Callable[[Start], list[str]]
    environment: Callable[[Start], dict[str, str]] = lambda start: {}
    settings: Callable[[Start], dict[str, str]] = lambda start: {}
    """Files to write in HOME before the client is connected: path to content."""

    guide_row: str = ""
    """Its row in the guide's table. SDKs have none: the address is an argument of their script."""

    major: str = ""
    """Only versions that begin with this number."""

    also: tuple[str, ...] = ()
    """Packages that are installed with it."""

    @property
    def is_python(self) -> bool:
        return self.name.startswith(("python", "openai", "pydantic", "fastmcp"))


def _opencode_package() -> str:
    """The package with the binary for this machine. opencode-ai names it in a script after the installation, and the two
    are not always published at the same version."""
    system = "darwin" if sys.platform == "darwin" else "linux"
    return f"opencode-{system}-{'arm64' if platform.machine() in ('aarch64', 'arm64') else 'x64'}"


def _codex_command(start: Start) -> list[str]:
    provider = f'{{name="scripted", base_url="{start.model_url}/v1", wire_api="responses", env_key="SCRIPTED_KEY"}}'
    settings = [f"model_providers.scripted={provider}", "model_provider=scripted", "model=scripted"]
    settings += ["check_for_update_on_startup=false", "analytics.enabled=false"]
    options = [option for setting in settings for option in ("-c", setting)]
    flags = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    return ["codex", "exec", *flags, *options, "Follow the script."]


def _opencode_environment(start: Start) -> dict[str, str]:
    options = {"baseURL": f"{start.model_url}/v1", "apiKey": "none"}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"scripted": {"tool_call": True}}}
    config = {
        "provider": {"scripted": provider},
        "model": "scripted/scripted",
        "autoupdate": False,
        "share": "disabled",
    }
    quiet = {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}
    return quiet | {"OPENCODE_CONFIG_CONTENT": json.dumps(config)}


def _agent(script: str) -> Callable[[Start], list[str]]:
    """The command for one of our own small agents. It is copied beside its packages, where Node looks for them."""

    def command(start: Start) -> list[str]:
        copy = start.place / script
        copy.write_text((AGENTS / script).read_text("utf-8"), "utf-8")
        program = "node" if script.endswith(".mjs") else str(start.place / "bin" / "python")
        return [program, str(copy), start.mcp_url, start.model_url]

    return command


PROGRAMS = (
    Program(
        "claude",
        "@anthropic-ai/claude-code",
        "2.1.325",
        guide_row="Claude Code",
        command=lambda start: ["claude", "-p", "Follow the script.", "--allowedTools", "mcp__palaver"],
        environment=lambda start: {
            "ANTHROPIC_BASE_URL": start.model_url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
    ),
    Program(
        "codex",
        "@openai/codex",
        "0.166.0",
        guide_row="Codex",
        command=_codex_command,
        environment=lambda start: {"SCRIPTED_KEY": "none"},
    ),
    Program(
        "gemini",
        "@google/gemini-cli",
        "0.61.0",
        guide_row="Gemini CLI",
        command=lambda start: ["gemini", "-p", "Follow the script.", "--yolo", "-m", "gemini-2.5-flash"],
        environment=lambda start: {
            "GEMINI_API_KEY": "none",
            "GOOGLE_GEMINI_BASE_URL": start.model_url,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        },
        settings=lambda start: {
            ".gemini/settings.json": json.dumps(
                {
                    "security": {"auth": {"selectedType": "gemini-api-key"}},
                    "privacy": {"usageStatisticsEnabled": False},
                    "general": {"enableAutoUpdate": False},
                }
            )
        },
    ),
    Program(
        "opencode",
        _opencode_package(),
        "1.18.18",
        guide_row="opencode",
        command=lambda start: ["opencode", "run", "Follow the script."],
        environment=_opencode_environment,
    ),
    Program("ts-v1", "@modelcontextprotocol/sdk", "1.32.2", command=_agent("ts_v1.mjs"), major="1"),
    Program("ts-v2", "@modelcontextprotocol/client", "2.4.0", command=_agent("ts_v2.mjs"), major="2"),
    Program("python-v1", "mcp", "1.30.0", command=_agent("python_v1.py"), major="1"),
    Program("python-v2", "mcp", "2.3.0", command=_agent("python_v2.py"), major="2"),
    Program("openai-agents", "openai-agents", "0.24.0", command=_agent("openai_agents.py")),
    Program(
        "pydantic-ai",
        "pydantic-ai-slim",
        "2.66.0",
        command=_agent("pydantic_agents.py"),
        also=("pydantic-ai-slim[openai,mcp]",),
    ),
)


def guide_code(row: str) -> list[str]:
    """The pieces of code in the row of the table `By hand` in docs/guides/clients.md."""
    guide = (ROOT / "docs" / "guides" / "clients.md").read_text("utf-8").partition("## By hand")[2]
    for line in guide.splitlines():
        if line.startswith(f"| {row} |"):
            return re.findall(r"`([^`]+)`", line.split("|", 2)[2])
    raise AssertionError(f"the guide has no row for {row}")


def guide_url() -> str:
    """The address that the guide gives to coding agents."""
    (found,) = re.findall(rf"{re.escape(GUIDE_URL)}[^\s'\"`]*", guide_code("Claude Code")[0])
    return str(found)
