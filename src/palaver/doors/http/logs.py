"""Server log, as text or JSON lines. It never contains message text."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

from palaver.settings import Settings


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line: dict[str, Any] = {"at": at, "level": record.levelname.lower(), "from": record.name}
        line["says"] = record.getMessage()
        line |= getattr(record, "facts", {})
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def library_level(settings: Settings) -> str:
    """The level of uvicorn's loggers. Not below info: at debug, uvicorn logs WebSocket headers with tokens."""
    return "info" if settings.log_level.lower() in ("debug", "trace") else settings.log_level


def config(settings: Settings) -> dict[str, Any]:
    """Configuration for `logging.config`. All logs go to standard error."""
    level = settings.log_level.upper()
    plain = {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "own": {"()": "palaver.doors.http.logs.JsonFormatter"} if settings.log_format == "json" else plain
        },
        "handlers": {"own": {"class": "logging.StreamHandler", "formatter": "own"}},
        "loggers": {
            "palaver": {"handlers": ["own"], "level": level, "propagate": False},
            "uvicorn": {"handlers": ["own"], "level": library_level(settings).upper(), "propagate": False},
        },
    }
