"""Threads, messages, reactions, agents and their events."""
