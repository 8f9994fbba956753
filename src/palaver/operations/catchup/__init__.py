"""Catch up: what is new for an agent or a person, for tools, people and the hooks of coding agents."""
