"""The MCP door: `McpDoor` serves every operation's tools over HTTP, WebSocket, SSE and stdio."""

from palaver.doors.mcp.server import McpDoor

__all__ = ["McpDoor"]
