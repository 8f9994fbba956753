"""The database engines, SQLite and PostgreSQL, behind one interface."""
