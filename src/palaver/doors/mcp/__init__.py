"""MCP: `McpDoor` in server.py serves the tools of all operations over HTTP, WebSocket, SSE and stdio.

This file imports nothing: the MCP SDK takes a second to load, and the server loads it in the background.
"""
