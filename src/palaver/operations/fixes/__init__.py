"""What ended an error before: found in recorded sessions, told when the same error comes again."""
