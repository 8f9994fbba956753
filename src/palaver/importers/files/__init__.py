"""Readers of containers: files, folders, zips, databases, streams."""
