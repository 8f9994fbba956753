"""Answer `initialize` while the MCP SDK is still being loaded. That takes about a second, and clients wait for it.

The answers do not depend on any data. `greeting.json` has them for each protocol version; `make reference` writes it
with the SDK. Requests that are in any way unusual are left to the SDK.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def early_answer(line: bytes) -> tuple[str | int, bytes] | None:
    """The id of an `initialize` request and the answer to it; None if the line is anything else."""
    try:
        request = json.loads(line)
    except ValueError:
        return None
    match request:
        case {
            "jsonrpc": "2.0",
            "method": "initialize",
            "id": str() | int() as id,
            "params": {
                "protocolVersion": str(version),
                "capabilities": {},
                "clientInfo": {"name": str(), "version": str()},
                **more,
            },
        } if set(more) <= {"_meta"} and (result := _greetings().get(version)):
            return id, json.dumps({"jsonrpc": "2.0", "id": id, "result": result}, ensure_ascii=False).encode() + b"\n"
    return None


def _greetings() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(__file__).with_name("greeting.json").read_text("utf-8"))
    return found
