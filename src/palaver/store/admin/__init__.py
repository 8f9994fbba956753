"""Tokens, logins, the audit log, backups and the trash."""
