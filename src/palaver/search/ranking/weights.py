"""How much each feature of a passage counts, as learned by tools/learn_ranking.py and kept in weights.toml."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

FILE = Path(__file__).parent / "weights.toml"
Weights = dict[str, dict[str, float]]
"""By kind of talk, by feature."""


@cache
def weights() -> Weights:
    with FILE.open("rb") as file:
        return tomllib.load(file)
