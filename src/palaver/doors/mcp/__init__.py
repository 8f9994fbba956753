"""MCP: `McpDoor` serves the tools of all operations over HTTP, WebSocket, SSE and stdio."""

from palaver.doors.mcp.server import McpDoor

__all__ = ["McpDoor"]
