"""The storage layer: the only package that contains SQL."""
