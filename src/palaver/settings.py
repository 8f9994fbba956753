"""Every knob once: its name, type, default and one line of help.

A flag wins over the environment, the environment over `palaver.toml` (in the working directory or in PALAVER_HOME),
where the settings stand at the top or under `[palaver]`.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from palaver.errors import Invalid

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


def _switch(text: str) -> bool:
    match text.strip().lower():
        case "1" | "true" | "yes" | "on":
            return True
        case "0" | "false" | "no" | "off" | "":
            return False
    raise ValueError("say on or off")


def _size(text: str) -> int:
    """Bytes, with the usual suffixes: 5MB, 512k."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([kmg]?)b?", text.strip().lower())
    if found is None:
        raise ValueError("say a size such as 5MB")
    return int(float(found[1]) * 1024 ** " kmg".index(found[2] or " "))


def _whole(most: int = 2**53) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not re.fullmatch("[0-9]{1,16}", text.strip()) or int(text) > most:
            raise ValueError("say a whole number" + (f" up to {most:,}" if most < 2**53 else ""))
        return int(text)

    return read


def _seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,16}(\.[0-9]*)?", text.strip()):
        raise ValueError("say a number of seconds")
    return float(text)


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _limits(text: str) -> str:
    """auto, off, a number, or numbers for single tools: 120,knowledge_search=30."""
    text = text.strip().lower()
    if text in ("auto", "off", ""):
        return "auto" if text == "auto" else "0"
    parts = [part.strip() for part in text.split(",")]
    if all(re.fullmatch(r"([a-z_.]+=)?[0-9]{1,9}", part) for part in parts):
        return ",".join(parts)
    raise ValueError("say a number of calls a minute, numbers for single tools (knowledge_search=30), auto or off")


def _one_of(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.strip().lower() not in choices:
            raise ValueError(f"say one of {', '.join(choices)}")
        return text.strip().lower()

    return read


def _model(text: str) -> str:
    kind, _, name = text.strip().partition(":")
    if (kind in ("builtin", "minilm") and not name) or (kind in ("openai", "fastembed") and name):
        return text.strip()
    raise ValueError("say builtin, minilm, fastembed:NAME or openai:NAME")


def knob(default: Any, help: str, read: Callable[[str], Any] = str, also: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"help": help, "read": read, "also": also})


@dataclass(frozen=True, kw_only=True)
class Settings:
    home: Path | None = knob(None, "Directory for all data. Default: the platform's user data directory.", Path)
    database_url: str = knob("", "sqlite:///DIRECTORY or postgresql://… Default: SQLite in PALAVER_HOME.")
    host: str = knob("127.0.0.1", "Address to listen on.", also=("AGENTCHATBUS_HOST",))
    port: int = knob(39765, "Port to listen on.", _whole(65_535), also=("AGENTCHATBUS_PORT",))
    public_url: str = knob("", "Where people reach the server, for absolute links. Default: http://HOST:PORT.")
    auth: str = knob(
        "auto", "open, token, or auto: a token is needed unless bound to loopback.", _one_of("auto", "open", "token")
    )
    allowed_hosts: tuple[str, ...] = knob((), "Further Host names to answer to, comma-separated.", _names)
    agent: str = knob("", "Which agent a stdio MCP client is, where no token says so.")
    agent_ttl: float = knob(7 * 86_400.0, "Seconds after which an agent that was not seen leaves agent_list.", _seconds)
    tool_names: str = knob("plain", "plain (notes_search) or dotted (notes.search).", _one_of("plain", "dotted"))
    toolsets: tuple[str, ...] = knob(
        ("standard",),
        "Tools to list: core, standard, bus, sessions, archive, knowledge, library-writing, all, or names of tools.",
        _names,
    )
    output_schemas: bool = knob(False, "List the output schemas of tools too. They cost many tokens.", _switch)
    answers: str = knob("compact", "Answers of MCP tools: compact, or full as over REST.", _one_of("compact", "full"))
    language: str = knob("English", "Language agents are asked to prefer.")
    content_filter: bool = knob(True, "Refuse messages that hold keys, tokens or private keys.", _switch)
    rate_limit: int = knob(0, "Posts a minute for each author; 0 is no limit.", _whole())
    tool_limits: str = knob(
        "auto",
        "Calls a minute of each tool for each caller: 120 or 120,knowledge_search=30, off, auto: 600, off on loopback.",
        _limits,
    )
    conversation_db: Path | None = knob(
        None,
        "A canonical ChatGPT database to search as it is, beside imports. Default: the newest db/*.db, if any.",
        Path,
        also=("CONVERSATION_DB", "ORIGIN_CONVERSATION_DB"),
    )
    sessions_index: bool = knob(True, "Index agents' sessions, so that they can be searched.", _switch)
    profile: str = knob(
        "", "deep-research also lists search and fetch, as ChatGPT connectors want them.", _one_of("", "deep-research")
    )
    model: str = knob(
        "builtin",
        "What tells how alike texts are: builtin, minilm, fastembed:NAME or openai:NAME (any such endpoint).",
        _model,
    )
    model_url: str = knob("https://api.openai.com/v1", "Where the endpoint of an openai:NAME model is.")
    model_key: str = knob("", "The key for that endpoint. It is sent there and shown nowhere.")
    session_ttl: float = knob(1800.0, "Seconds for which a session of searching remembers what it has shown.", _seconds)
    search_timeout: float = knob(5.0, "Seconds one search or read may take.", _seconds)
    max_upload: int = knob(5 * 1024 * 1024, "Largest uploaded image, e.g. 5MB.", _size)
    max_import: int = knob(4 * 1024**3, "Largest upload to be imported, e.g. 4GB.", _size)
    fetch: bool = knob(False, "Fetch web pages and documents that somebody asks to keep.", _switch)
    fetch_hosts: tuple[str, ...] = knob(
        (), "Hosts of your own network that may be fetched from as well (host or host:port), comma-separated.", _names
    )
    max_body: int = knob(16 * 1024 * 1024, "Largest request body, e.g. 16MB; 2 MiB where no long text is sent.", _size)
    heartbeat_timeout: float = knob(60.0, "Seconds without a sign of life until an agent counts as offline.", _seconds)
    keep_events: int = knob(100_000, "How many events stay replayable with Last-Event-ID.", _whole())
    log_level: str = knob(
        "warning", "debug, info, warning or error. At info every request is a line, without its text."
    )
    log_format: str = knob("text", "text, or json: one object a line.", _one_of("text", "json"))

    @property
    def base_url(self) -> str:
        # Bound to every address, this machine reaches it on its own.
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        host = f"[{host}]" if ":" in host else host
        return self.public_url.rstrip("/") or f"http://{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        return self.host in LOOPBACK or self.host.startswith("127.")

    @property
    def needs_token(self) -> bool:
        return self.auth == "token" or (self.auth == "auto" and not self.is_loopback)

    @property
    def data(self) -> Path:
        if self.home:
            return self.home.expanduser()
        from platformdirs import user_data_path

        return user_data_path("palaver", appauthor=False)


def load(flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Put the settings together; a value that cannot be read is named, with where it came from."""
    return Settings(**{name: value for name, (value, _) in found(flags, environ).items()})


def found(
    flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] = os.environ
) -> dict[str, tuple[Any, str]]:
    """What was set, and where: 'flag', the variable's name, or 'palaver.toml'. The rest has its default."""
    found: dict[str, tuple[Any, str]] = {}
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    from_file = _file(given, environ)
    for knob_ in fields(Settings):
        name, read = knob_.name, knob_.metadata["read"]
        variables = (f"PALAVER_{name.upper()}", *knob_.metadata["also"])
        variable = next((v for v in variables if environ.get(v)), None)
        if name in given:
            found[name] = given[name], "flag"
        elif variable:
            found[name] = _read(read, environ[variable], variable), variable
        elif name in from_file:
            value = from_file[name]
            text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
            found[name] = _read(read, text, f"{name} in palaver.toml"), "palaver.toml"
    return found


def _read(read: Callable[[str], Any], text: str, where: str) -> Any:
    try:
        return read(text)
    except ValueError as problem:
        raise Invalid(f"{where} = {text!r} cannot be read: {problem}.") from None


def _file(given: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    home = given.get("home") or environ.get("PALAVER_HOME")
    for place in (Path("palaver.toml"), Path(home, "palaver.toml") if home else None):
        if place and place.is_file():
            try:
                return _level(tomllib.loads(place.read_text("utf-8-sig")))
            except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
                raise Invalid(f"{place.name} is not valid TOML: {problem}.") from None
    return {}


def _level(given: dict[str, Any]) -> dict[str, Any]:
    """What stands under `[palaver]` counts as if it stood at the top; the same setting in both places is refused."""
    table = given.pop("palaver", {})
    if not isinstance(table, dict):
        raise Invalid("palaver in palaver.toml must be a table: write [palaver], and the settings below it.")
    if twice := sorted(given.keys() & table.keys()):
        raise Invalid(f"{twice[0]} stands twice in palaver.toml: at the top and under [palaver]. Remove one of them.")
    return given | table
