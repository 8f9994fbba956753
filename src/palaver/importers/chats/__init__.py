"""Readers of conversations: exports and local files of chat programs and coding agents."""
