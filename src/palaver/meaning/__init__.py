"""What was learned beforehand: a vector for each frequent word, and how much each feature of a passage counts."""
