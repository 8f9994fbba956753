"""Webhooks: events are sent out of the house, and messages come in."""
