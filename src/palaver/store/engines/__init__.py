"""The engines: SQLite and PostgreSQL behind one port."""
