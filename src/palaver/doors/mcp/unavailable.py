"""Workaround: tell MCP clients that the database cannot be reached.

Clients drop the body of a response with an error status (modelcontextprotocol/python-sdk#1212). So the message is sent
with status 200 as JSON-RPC: as the result of a tool call, which the model reads, or as an error.
"""

from __future__ import annotations

from typing import Any

import orjson
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from palaver.doors.mcp.surrogates import fixed_body
from palaver.errors import Unavailable
from palaver.model.events import encode

SERVER_ERROR = -32000


async def answer(problem: Unavailable, max_bytes: int, scope: Scope, receive: Receive, send: Send) -> None:
    """Read the request and answer it with the problem."""
    body, _ = await fixed_body(receive, max_bytes)
    try:
        request = orjson.loads(body)
        id, method = request.get("id"), request.get("method")
    except (ValueError, AttributeError):
        id = method = None
    if method == "tools/call":
        content = [{"type": "text", "text": encode(problem.as_tool_result()).decode()}]
        outcome: dict[str, Any] = {"result": {"content": content, "isError": True, "resultType": "complete"}}
    else:
        error = {"code": SERVER_ERROR, "message": problem.message, "data": problem.as_tool_result()}
        outcome = {"error": error}
    await JSONResponse({"jsonrpc": "2.0", "id": id, **outcome})(scope, receive, send)
