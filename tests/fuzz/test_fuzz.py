"""A short run of `make fuzz`: always the same inputs, so that it fails only when the code has changed."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fuzz.fuzzer import PARSERS, hostile, of_length, strange

ROOT = Path(__file__).parents[2]
INPUTS = 40
LENGTH, SLOW_LENGTH = 100_000, 3_000
"""Linear time is some milliseconds for a text of this length; quadratic time would exceed the limit of the test."""


@pytest.mark.parametrize("name", PARSERS)
def test_no_strange_input_is_read_wrongly(name: str):
    rng = random.Random(name)
    for _ in range(INPUTS):
        PARSERS[name].read(strange(PARSERS[name], rng))


@pytest.mark.parametrize("name", [name for name, parser in PARSERS.items() if not parser.is_slow])
def test_no_hostile_text_takes_too_long(name: str):
    shapes = list(hostile())
    for _, *shape in random.Random(name).sample(shapes, 12):
        PARSERS[name].read(of_length(LENGTH, *shape))


def test_every_seed_is_read():
    for parser in PARSERS.values():
        assert parser.seeds
        for seed in parser.seeds:
            parser.read(seed)


def test_a_find_is_told_with_its_input_and_how_to_repeat_it():
    """A parser that fails at one word is found, its input is made smaller, and a file has it."""
    program = (
        "import sys; from tests.fuzz import fuzzer, parsers, run\n"
        "def read(raw):\n    assert b'harbour' not in raw\n"
        "fuzzer.PARSERS['words'] = parsers.Parser(read, (b'the harbour is closed',))\n"
        "sys.argv = ['fuzz', '--minutes', '0.02', '--seed', '1', '--parser', 'words']\n"
        "sys.exit(run.main())"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stderr
    assert "input (7 bytes): b'harbour'" in done.stdout
    again = done.stdout.partition('again: make fuzz ARGS="')[2].partition('"')[0].split()
    path = ROOT / again[-1]
    assert (again[:2], path.read_bytes()) == (["--parser", "words"], b"harbour")
    path.unlink()
