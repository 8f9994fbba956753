"""The words the house uses. Data only: no reading, no writing."""
