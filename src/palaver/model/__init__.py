"""Data types shared by all packages. No input or output."""
