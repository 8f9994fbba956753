"""Documents, imported conversations and library items."""
