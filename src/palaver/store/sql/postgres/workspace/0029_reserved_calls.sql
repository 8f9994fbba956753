-- Each server counts the calls of tools for itself.
DROP TABLE reserved_calls;
