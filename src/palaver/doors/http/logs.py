"""Server log, as text or JSON lines. It never contains message text.

Characters that control a terminal or begin a line are escaped: callers choose paths and names that are logged.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

from palaver.settings import Settings


def visible(text: str) -> str:
    """Text in one line, with characters that are not printed as escapes: a line feed is backslash and n."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = f"{self.formatTime(record)} {record.levelname} {record.name}: {visible(record.getMessage())}"
        trace = self.formatException(record.exc_info).split("\n") if record.exc_info else ()
        return "\n    ".join([line, *map(visible, trace)])  # indented: an error can contain text of callers too


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line: dict[str, Any] = {"at": at, "level": record.levelname.lower(), "from": record.name}
        line["says"] = record.getMessage()
        line |= getattr(record, "facts", {})
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line)


def library_level(settings: Settings) -> str:
    """The level of uvicorn's loggers. Not below info: at debug, uvicorn logs WebSocket headers with tokens."""
    return "info" if settings.log_level.lower() in ("debug", "trace") else settings.log_level


def config(settings: Settings) -> dict[str, Any]:
    """Configuration for `logging.config`. All logs go to standard error."""
    level = settings.log_level.upper()
    formatter = "JsonFormatter" if settings.log_format == "json" else "TextFormatter"
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"own": {"()": f"palaver.doors.http.logs.{formatter}"}},
        "handlers": {"own": {"class": "logging.StreamHandler", "formatter": "own"}},
        "root": {"handlers": ["own"], "level": "WARNING"},  # libraries log what callers sent, too
        "loggers": {
            "palaver": {"handlers": ["own"], "level": level, "propagate": False},
            "uvicorn": {"handlers": ["own"], "level": library_level(settings).upper(), "propagate": False},
        },
    }
