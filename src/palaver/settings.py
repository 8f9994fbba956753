"""Settings: name, type, default and help of each, and where they are read from.

A command-line option overrides the environment. The environment overrides `palaver.toml` in PALAVER_HOME, with settings
at the top level or under `[palaver]`. A file in the working directory is not read: it may come with a stranger's
repository (`model/project_file.py` says what such a file can do).
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
    raise ValueError("use on or off")


def _size(text: str) -> int:
    """Bytes, with an optional suffix: 5MB, 512k."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([kmg]?)b?", text.strip().lower())
    if found is None:
        raise ValueError("use a size such as 5MB")
    return int(float(found[1]) * 1024 ** " kmg".index(found[2] or " "))


def _whole(most: int = 2**53) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not re.fullmatch("[0-9]{1,16}", text.strip()) or int(text) > most:
            raise ValueError("use a whole number" + (f" up to {most:,}" if most < 2**53 else ""))
        return int(text)

    return read


def _seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,16}(\.[0-9]*)?", text.strip()):
        raise ValueError("use a number of seconds")
    return float(text)


def _interval(text: str) -> str:
    """off, or a number and a unit: 6h."""
    text = text.strip().lower()
    if text in ("off", "0", "no", "false"):
        return "off"
    if not re.fullmatch(r"[0-9]{1,6}[smhd]", text) or not int(text[:-1]):
        raise ValueError("use off, or a time such as 6h, 30m or 1d")
    return text


def _hours(text: str) -> str:
    text = text.strip()
    time = "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
    if text and not re.fullmatch(f"{time}-(?:{time}|24:00)", text):
        raise ValueError("use two times such as 22:00-07:00, or nothing")
    return text


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
    raise ValueError("use a number of calls per minute, numbers for single tools (knowledge_search=30), auto or off")


def _one_of(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.strip().lower() not in choices:
            raise ValueError(f"use one of {', '.join(choices)}")
        return text.strip().lower()

    return read


def _model(text: str) -> str:
    kind, _, name = text.strip().partition(":")
    if text.strip() == "builtin":  # its name before 0.2
        return "words"
    if (kind in ("words", "minilm") and not name) or (kind in ("openai", "fastembed") and name):
        return text.strip()
    if Path(text.strip()).expanduser().is_absolute():
        return text.strip()
    raise ValueError("use minilm, words, fastembed:NAME, openai:NAME or the whole path of an ONNX file")


def setting(default: Any, help: str, read: Callable[[str], Any] = str, also: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"help": help, "read": read, "also": also})


@dataclass(frozen=True, kw_only=True)
class Settings:
    home: Path | None = setting(None, "Directory for all data. Default: the platform's user data directory.", Path)
    database_url: str = setting("", "sqlite:///DIRECTORY or postgresql://… Default: SQLite in PALAVER_HOME.")
    host: str = setting("127.0.0.1", "Address to listen on.", also=("AGENTCHATBUS_HOST",))
    port: int = setting(39765, "Port to listen on.", _whole(65_535), also=("AGENTCHATBUS_PORT",))
    public_url: str = setting("", "Public URL of the server, for absolute links. Default: http://HOST:PORT.")
    auth: str = setting(
        "auto",
        "open, token, or auto. auto requires a token unless the address is loopback.",
        _one_of("auto", "open", "token"),
    )
    oauth: str = setting(
        "on",
        "OAuth for applications such as claude.ai, where tokens are required: on, off, or registration if the server "
        "cannot reach the internet.",
        _one_of("on", "registration", "off"),
    )
    allowed_hosts: tuple[str, ...] = setting((), "Additional allowed host names, comma-separated.", _names)
    agent: str = setting("", "Agent of a stdio MCP client that has no token.")
    agent_ttl: float = setting(7 * 86_400.0, "Seconds after which an inactive agent leaves agent_list.", _seconds)
    tool_names: str = setting("plain", "plain (notes_search) or dotted (notes.search).", _one_of("plain", "dotted"))
    toolsets: tuple[str, ...] = setting(
        ("standard",),
        "Tools to list: core, standard, bus, sessions, archive, knowledge, library-writing, all, or tool names.",
        _names,
    )
    output_schemas: bool = setting(False, "Also list the output schemas of tools. They cost many tokens.", _switch)
    answers: str = setting(
        "auto",
        "Answers of MCP tools: compact, full as in REST, or auto: search results are compact with the core tools only.",
        _one_of("auto", "compact", "full"),
    )
    language: str = setting("English", "Preferred language of agents.")
    content_filter: bool = setting(True, "Refuse messages that contain API keys, tokens or private keys.", _switch)
    rate_limit: int = setting(0, "Maximum posts per minute for each author; 0 means no limit.", _whole())
    tool_limits: str = setting(
        "auto",
        "Calls per minute of a tool by a caller: 120 or 120,knowledge_search=30, off, or auto (600; off on loopback).",
        _limits,
    )
    conversation_db: Path | None = setting(
        None,
        "External ChatGPT database to search besides imports. Default: the newest db/*.db, if any.",
        Path,
        also=("CONVERSATION_DB", "ORIGIN_CONVERSATION_DB"),
    )
    private: tuple[str, ...] = setting(
        (), "Folders and projects that are not recorded, besides those of 'palaver privacy'; comma-separated.", _names
    )
    recall: bool = setting(False, "Hooks add evidence from memory to each prompt of a coding agent.", _switch)
    turns_per_hour: int = setting(
        30, "How many turns two agents may begin of each other in a thread within an hour.", _whole()
    )
    turns_without_person: int = setting(
        10, "How many turns two agents may begin of each other in a thread until a person writes in it.", _whole()
    )
    quiet_hours: str = setting(
        "", "When messages begin no turns, unless they are urgent: 22:00-07:00, by the server's clock.", _hours
    )
    sharing: str = setting(
        "person",
        "Which sessions agents read, unless the workspace has its own setting: agent (their own), person (also those "
        "of their owner's agents in the same project) or project (all in the same project).",
        _one_of("agent", "person", "project"),
    )
    sessions_index: bool = setting(True, "Index agent sessions for search.", _switch)
    profile: str = setting(
        "",
        "deep-research also lists the tools search and fetch, which ChatGPT connectors need.",
        _one_of("", "deep-research"),
    )
    model: str = setting(
        "minilm",
        "Model of meaning: minilm (inside the package), words (quicker, without a network), fastembed:NAME, "
        "openai:NAME (any compatible endpoint) or the whole path of an ONNX file with its tokenizer beside it.",
        _model,
    )
    model_url: str = setting("https://api.openai.com/v1", "Base URL of the endpoint for an openai:NAME model.")
    model_key: str = setting("", "API key for that endpoint. It is never shown.")
    session_ttl: float = setting(1800.0, "Seconds for which a search session remembers its shown results.", _seconds)
    search_timeout: float = setting(
        5.0, "Maximum seconds for one search. Waiting for its turn does not count.", _seconds
    )
    max_upload: int = setting(5 * 1024 * 1024, "Maximum size of an uploaded image or file, e.g. 5MB.", _size)
    max_import: int = setting(4 * 1024**3, "Maximum size of an upload to import, e.g. 4GB.", _size)
    fetch: bool = setting(False, "Allow fetching web pages and documents to import.", _switch)
    fetch_hosts: tuple[str, ...] = setting(
        (), "Hosts in your own network that can be fetched too (host or host:port), comma-separated.", _names
    )
    max_body: int = setting(
        16 * 1024 * 1024, "Maximum size of a request body, e.g. 16MB. Requests without long text: 2 MiB.", _size
    )
    heartbeat_timeout: float = setting(60.0, "Seconds of inactivity after which an agent is offline.", _seconds)
    keep_events: int = setting(100_000, "Number of events that can be replayed with Last-Event-ID.", _whole())
    check: str = setting(
        "1d", "How often the server checks its data for damage in the background: 1d, 6h, 30m, or off.", _interval
    )
    log_level: str = setting("warning", "debug, info, warning or error. info logs every request, without its text.")
    log_format: str = setting("text", "text, or json: one object per line.", _one_of("text", "json"))

    @property
    def base_url(self) -> str:
        # A server on all addresses is reachable at the loopback address.
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
    def has_oauth(self) -> bool:
        return self.needs_token and self.oauth != "off"

    @property
    def check_seconds(self) -> float | None:
        """Seconds between two background checks. None: there is none."""
        if self.check == "off":
            return None
        return float(self.check[:-1]) * {"s": 1, "m": 60, "h": 3_600, "d": 86_400}[self.check[-1]]

    @property
    def data(self) -> Path:
        return self.home.expanduser() if self.home else _default_data()

    @property
    def home_option(self) -> tuple[str, ...]:
        """The option with which another palaver command uses the same data. The default folder needs none."""
        data = self.data.absolute()
        return () if data == _default_data() else ("--home", str(data))


def _default_data() -> Path:
    from platformdirs import user_data_path

    return user_data_path("palaver", appauthor=False)


def load(flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Load all settings. An error names the invalid value and its origin."""
    return Settings(**{name: value for name, (value, _) in given_settings(flags, environ).items()})


def given_settings(
    flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] = os.environ, folder: Path | None = None
) -> dict[str, tuple[Any, str]]:
    """The settings that differ from the defaults, each with its origin: 'flag', a variable or 'palaver.toml'.

    `folder` is the working directory that a relative PALAVER_HOME is in, unless it is that of this process.
    """
    found: dict[str, tuple[Any, str]] = {}
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    from_file = _read_file(given, environ, folder or Path())
    for field_ in fields(Settings):
        name, parse = field_.name, field_.metadata["read"]
        variables = (f"PALAVER_{name.upper()}", *field_.metadata["also"])
        variable = next((v for v in variables if environ.get(v)), None)
        if name in given:
            found[name] = given[name], "flag"
        elif variable:
            found[name] = _parse(parse, environ[variable], variable), variable
        elif name in from_file:
            value = from_file[name]
            text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
            found[name] = _parse(parse, text, f"{name} in palaver.toml"), "palaver.toml"
    return found


def parse_flags(flags: Mapping[str, str]) -> dict[str, Any]:
    """Options of the command line, from their texts."""
    known = {field_.name: field_.metadata["read"] for field_ in fields(Settings)}
    return {name: _parse(known[name], text, f"--{name}") for name, text in flags.items() if name in known}


def _parse(parse: Callable[[str], Any], text: str, origin: str) -> Any:
    try:
        return parse(text)
    except ValueError as problem:
        raise Invalid(f"{origin} = {text!r} is not valid: {problem}.") from None


def _read_file(given: Mapping[str, Any], environ: Mapping[str, str], folder: Path) -> dict[str, Any]:
    home = given.get("home") or environ.get("PALAVER_HOME")
    place = folder / Settings(home=Path(home) if home else None).data / "palaver.toml"
    try:
        top = tomllib.loads(place.read_text("utf-8-sig"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as problem:
        raise Invalid(f"{place} cannot be read: {problem.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise Invalid(f"{place.name} is not valid TOML: {problem}.") from None
    table = top.pop("palaver", {})
    if not isinstance(table, dict):
        raise Invalid("palaver in palaver.toml must be a table: write [palaver], and the settings below it.")
    if twice := sorted(top.keys() & table.keys()):
        raise Invalid(f"{twice[0]} is in palaver.toml twice: at the top and under [palaver]. Remove one.")
    if "home" in top | table:
        raise Invalid("home cannot be set in palaver.toml, which is in that folder. Use --home or PALAVER_HOME.")
    return top | table
