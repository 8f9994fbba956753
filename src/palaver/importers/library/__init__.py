"""Readers of library items: notes, prompts, characters and media."""
