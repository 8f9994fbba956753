"""HTTP: REST, server-sent events, uploads, console files, login and metrics."""
