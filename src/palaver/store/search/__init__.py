"""Reads the passages that a search found, and stores vectors and search sessions."""
