"""Pure functions on strings: words, queries, passages, secrets."""
