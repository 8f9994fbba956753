"""Fuzz every parser for some minutes: `make fuzz ARGS="--minutes 10"`. The exit code is 1 if something was found.

Three kinds of runs take turns. Good inputs are changed at random and read. Hostile shapes are read at two lengths, and
their CPU times are compared: four times the length must not take more than ten times as long. At the end the property
tests of the suite run with other examples than usual.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import os
import random
import subprocess
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

from tests.fuzz.fuzzer import PARSERS, growth, hostile, of_length, smaller, strange

ROOT = Path(__file__).parents[2]
FOUND = ROOT / ".cache" / "fuzz"
LENGTH, SLOW_LENGTH = 20_000, 4_000
MOST_GROWTH = 10.0
TELL_SECONDS = 10.0
SHARE_OF_PROPERTIES = 0.3
PROPERTIES = ("tests/text", "tests/search", "tests/importers", "tests/setup", "tests/catchup", "tests/library")


class Fuzzing:
    def __init__(self, names: list[str], seed: int) -> None:
        self.names, self.seed = names, seed
        self.rng = random.Random(seed)
        self.cases: Counter[str] = Counter()
        self.shapes: Counter[str] = Counter()
        self.found: set[tuple[str, str]] = set()
        self._told = time.monotonic()

    def tell(self, *, at_once: bool = False) -> None:
        if at_once or time.monotonic() - self._told > TELL_SECONDS:
            self._told = time.monotonic()
            print(
                f"{sum(self.cases.values()):,} inputs, {sum(self.shapes.values()):,} shapes, {len(self.found)} found",
                flush=True,
            )

    def read_strange(self, name: str, count: int) -> None:
        for _ in range(count):
            raw = strange(PARSERS[name], self.rng)
            self.cases[name] += 1
            try:
                PARSERS[name].read(raw)
            except Exception as problem:
                self.note(name, smaller(PARSERS[name], raw, type(problem)), problem)

    def measure(self, name: str, shape: tuple[str, bytes, bytes, bytes]) -> None:
        parser, (said, *rest) = PARSERS[name], shape
        length = SLOW_LENGTH if parser.is_slow else LENGTH
        self.shapes[name] += 1
        try:
            short, long = growth(parser, length, (rest[0], rest[1], rest[2]))
        except Exception as problem:
            self.note(name, of_length(4 * length, rest[0], rest[1], rest[2]), problem)
            return
        if long > MOST_GROWTH * max(short, 0.002):
            slow = AssertionError(f"{length:,} bytes took {short:.3f} s, {4 * length:,} took {long:.3f} s: {said}")
            self.note(name, of_length(4 * length, rest[0], rest[1], rest[2]), slow)

    def note(self, name: str, raw: bytes, problem: Exception) -> None:
        place = traceback.extract_tb(problem.__traceback__)[-1:] or None
        where = f"{type(problem).__name__} at {place[0].filename}:{place[0].lineno}" if place else str(problem)
        if (name, where) in self.found:
            return
        self.found.add((name, where))
        FOUND.mkdir(parents=True, exist_ok=True)
        path = FOUND / f"{name}-{hashlib.sha256(raw).hexdigest()[:12]}"
        path.write_bytes(raw)
        print(f"\nFOUND in {name}: {where}\n  {type(problem).__name__}: {str(problem)[:300]}")
        print(f"  input ({len(raw):,} bytes): {raw[:200]!r}{'…' if len(raw) > 200 else ''}")
        print(f'  again: make fuzz ARGS="--parser {name} --file {path.relative_to(ROOT)}"\n', flush=True)


def main() -> int:
    options = argparse.ArgumentParser(prog="make fuzz", description=__doc__.split("\n")[0])
    options.add_argument("--minutes", type=float, default=5.0)
    options.add_argument("--seed", type=int, default=None, help="Repeat a run with the seed that it printed.")
    options.add_argument(
        "--parser", action="append", choices=sorted(PARSERS), help="Only this parser; can be repeated."
    )
    options.add_argument("--file", type=Path, help="Read this input once, with the parsers that are given.")
    given = options.parse_args()
    names = given.parser or list(PARSERS)
    if given.file:
        for name in names:
            PARSERS[name].read(given.file.read_bytes())
            print(f"{name}: no problem")
        return 0
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(10**9)
    print(f"seed {seed}, {given.minutes:g} minutes, {len(names)} parsers", flush=True)
    fuzzing = Fuzzing(names, seed)
    until = time.monotonic() + given.minutes * 60 * (1 if given.parser else 1 - SHARE_OF_PROPERTIES)
    known = [(name, shape) for shape in hostile() for name in names]
    fuzzing.rng.shuffle(known)
    made_up = ((name, shape) for shape in hostile(random.Random(seed)) for name in names)
    for turn, (name, shape) in enumerate(itertools.chain(known, made_up)):
        if time.monotonic() > until:
            break
        fuzzing.measure(name, shape)
        fuzzing.read_strange(names[turn % len(names)], 20)
        fuzzing.tell()
    fuzzing.tell(at_once=True)
    print("inputs: " + ", ".join(f"{name} {count:,}" for name, count in sorted(fuzzing.cases.items())))
    code = 0 if given.parser else run_properties(given.minutes * 60 * SHARE_OF_PROPERTIES, seed)
    return 1 if fuzzing.found or code else 0


def run_properties(seconds: float, seed: int) -> int:
    """The property tests with examples from this seed, until the time is over. The last one may take longer."""
    until, number = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        chosen = seed + number
        print(f"property tests with --hypothesis-seed={chosen}", flush=True)
        environ = {name: value for name, value in os.environ.items() if name not in ("CI", "SAME_EXAMPLES")}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-m", "hypothesis", f"--hypothesis-seed={chosen}", *PROPERTIES],
            cwd=ROOT, env=environ,
        )  # fmt: skip
        if done.returncode:
            print(f"again: .venv/bin/python -m pytest -m hypothesis --hypothesis-seed={chosen} {' '.join(PROPERTIES)}")
            return done.returncode
        number += 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
