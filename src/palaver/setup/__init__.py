"""`palaver setup`: find the clients on this machine and edit their settings."""
