"""Readers of conversations: exports and databases of chat programs."""
