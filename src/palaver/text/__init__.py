"""What a word is, what a query means, and how a hit is shown."""
