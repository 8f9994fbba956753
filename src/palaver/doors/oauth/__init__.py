"""OAuth 2.1: how applications ask for access, and how people let them in."""
