"""Data types of administration: who may do what, the audit log, and applications that people allowed."""
