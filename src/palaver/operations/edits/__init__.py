"""Who edits what, and where a line comes from."""
