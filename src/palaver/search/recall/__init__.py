"""Recall: find the passages that may answer a question, choose the most promising, and read their texts."""
