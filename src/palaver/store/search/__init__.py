"""What searches read and keep."""
