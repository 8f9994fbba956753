"""Agents' sessions: transcripts and their index."""
