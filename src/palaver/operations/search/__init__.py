"""Searches, and opening results."""
