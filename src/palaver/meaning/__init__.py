"""What was learned beforehand: a vector for each piece of a word, and how much each feature of a passage counts."""
