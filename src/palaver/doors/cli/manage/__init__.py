"""Commands to set up, run, check and manage palaver."""
