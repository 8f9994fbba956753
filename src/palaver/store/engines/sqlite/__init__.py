"""The SQLite engine, and recovery of damaged files."""
