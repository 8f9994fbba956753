"""What was learned beforehand: a vector for each frequent word, and how much each feature of a passage counts."""

import os

# Before numpy is imported. More threads do not make such sums faster, they only keep the other processors busy: where
# others work too they wait for each other, and everything takes ten times as long.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
