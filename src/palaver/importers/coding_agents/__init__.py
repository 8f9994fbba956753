"""Readers of the sessions of coding agents: one file for each program."""
