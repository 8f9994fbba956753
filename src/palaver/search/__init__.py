"""Search: one entrance for every source."""
