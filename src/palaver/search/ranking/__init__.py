"""Ranking: features of passages, their weights, and scores."""
