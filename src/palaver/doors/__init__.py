"""Doors are the ways to call operations: HTTP, MCP and the command line. They do not use the store."""
