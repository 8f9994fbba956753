"""Find what was said: one search and one message bus for people, agents and scripts."""

__version__ = "0.2.0"
