"""What runs on the same machine as the server: its socket, the MCP pipe, and how it is found."""
