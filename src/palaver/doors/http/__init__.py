"""The HTTP door: REST, SSE, uploads, the console's files, login and metrics."""
