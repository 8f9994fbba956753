"""Operators such as `from:ada after:2026-05`: scopes for them, results without words, and proposed values."""
