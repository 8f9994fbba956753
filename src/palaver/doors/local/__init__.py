"""What runs on the same machine as the server: its socket, the MCP pipe, how it is found, and how it is started as a
service."""
