"""Vectors of words and texts, to compare their meanings."""

import os

# Set before numpy is imported. More threads do not make these small sums faster, and where other processes are busy
# they wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
