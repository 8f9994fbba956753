"""Make the table of words inside the package: a vector for each frequent word, taught by a model of sentences.

    pip install --no-deps symspellpy                 # a list of words by frequency, MIT
    python tools/make_static_model.py .../frequency_dictionary_en_82_765.txt FILE…

FILE… are labelled questions; only what was said is used. The teacher is the shipped model (minilm.onnx). The shipped
table was made from the LongMemEval dev sets and tests/quality/learn.jsonl.gz.

The words are those of MiniLM's vocabulary and, from the list, the most frequent ones with stems of their own. Each goes
through the transformer alone; what comes out is turned to its 256 strongest directions, and weighted so that frequent
words count less. That is where learning begins. Then words are moved until the sum of a stretch's words points where
MiniLM points for the stretch. Stretches are what was said in the labelled files (their questions are not looked at),
and, as few words are said there often, every word put among some that were said together. At last all is turned so
that what words have in common comes first, and rounded to bytes. No network runs when somebody asks. The teacher uses
all cores; it takes twenty minutes of one core, and then ten for the words.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from labelled_questions import worlds
from palaver.search.ranking.texts import sentences
from palaver.search.vectors.onnx_models import MiniLM
from palaver.search.vectors.words import MOST_RELATED, find_related
from palaver.text.languages import ENGLISH
from palaver.text.tokenize import stem, words

DIMENSIONS = 256
MORE_WORDS = 10_000
RARITY = 3e-3  # the "a" of a / (a + p), by which a piece of probability p is weighted
ASSISTANTS = 4  # stretches of each of their messages: they say most, and much of it alike
TIMES, COMPANY = 6, 7  # so often each word is put among others, and among how many at most
BATCH, EPOCHS, STEP, HELD = 256, 10, 0.001, 1e-5
HERE = Path(__file__).parent.parent / "src/palaver/search/vectors"


class Teacher:
    """The model, in a process for each core."""

    def __init__(self) -> None:
        self._pool = ProcessPoolExecutor(initializer=_load)

    def __call__(self, texts: Sequence[str], what: str) -> np.ndarray:
        """A row for each text."""
        rows = []
        for part in self._pool.map(_taught, [texts[at : at + BATCH] for at in range(0, len(texts), BATCH)]):
            rows.append(part)
            told(min(len(rows) * BATCH, len(texts)), len(texts), what)
        return np.concatenate(rows).astype(np.float64)


def _load() -> None:
    global _model
    _model = MiniLM()


def _taught(texts: Sequence[str]) -> np.ndarray:
    return _model(texts)


def told(done: int, of: int, what: str) -> None:
    print(f"\r{done} of {of} {what}", end="" if done < of else "\n", flush=True, file=sys.stderr)


def rarity(count: int, first: int) -> np.ndarray:
    """How much a piece counts. The vocabulary is in order of frequency from "the" on, so Zipf tells; what stands before
    it are single letters, in no order."""
    place = np.arange(count) - first + 1
    rank = np.where(place >= 1, place, count / 2)
    return RARITY / (RARITY + 1 / rank / np.sum(1 / np.arange(1, count + 1)))


def further(listed: Path, known: Sequence[str]) -> list[str]:
    """The most frequent words of the list whose stems nobody has yet."""
    stems, found = {stem(word) for word in known}, []
    for line in listed.read_text("utf-8-sig").splitlines():
        word = line.split()[0]
        if word.isascii() and word.isalpha() and len(word) > 2 and stem(word) not in stems:
            stems.add(stem(word))
            found.append(word)
    return found[:MORE_WORDS]


def said(files: Sequence[Path]) -> Iterator[str]:
    """What was said, each once, in stretches."""
    for path in files:
        for world in worlds(path):
            for line in (line for talk in world.talks for line in talk.lines):
                yield from sentences(line.text)[: ASSISTANTS if line.speaker == "assistant" else None]


def accompanied(names: Sequence[str], texts: Sequence[str]) -> Iterator[str]:
    """Each word among a few that were said one after the other, in six places."""
    dice, known = np.random.default_rng(0), frozenset(names)
    company = [found for text in texts if len(found := [word for word in words(text) if word in known]) > 2]
    for name in names:
        for _ in range(TIMES):
            others = [word for word in company[dice.integers(len(company))] if word != name]
            count = int(dice.integers(1, COMPANY + 1))
            first = int(dice.integers(max(1, len(others) - count + 1)))
            some = others[first : first + count]
            some.insert(int(dice.integers(len(some) + 1)), name)
            yield " ".join(some)


def moved(begin: np.ndarray, texts: Sequence[np.ndarray], towards: np.ndarray) -> np.ndarray:
    """Adam over the cosine between the sum of a text's words and where it should point, held near the beginning."""
    dice = np.random.default_rng(0)
    now, first, second = begin.copy(), np.zeros_like(begin), np.zeros_like(begin)
    order = np.arange(len(texts))
    for epoch in range(EPOCHS):
        dice.shuffle(order)
        for at in range(0, len(order), BATCH):
            some = order[at : at + BATCH]
            found = np.concatenate([texts[number] for number in some])
            counts = np.array([len(texts[number]) for number in some])
            sums = np.add.reduceat(now[found], np.concatenate(([0], np.cumsum(counts)[:-1])), axis=0)
            lengths = np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-6)
            sums /= lengths
            cosine = np.einsum("ij,ij->i", sums, towards[some])[:, None]
            slopes = (cosine * sums - towards[some]) / lengths / BATCH
            by_word = np.argsort(found, kind="stable")
            used, firsts = np.unique(found[by_word], return_index=True)
            slope = np.add.reduceat(np.repeat(slopes, counts, axis=0)[by_word], firsts, axis=0)
            slope += HELD * (now[used] - begin[used])
            first[used] = 0.9 * first[used] + 0.1 * slope
            second[used] = 0.99 * second[used] + 0.01 * slope**2
            now[used] -= STEP * first[used] / (np.sqrt(second[used]) + 1e-6)
        told(epoch + 1, EPOCHS, f"rounds, cosine {cosine.mean():.3f}")
    return now


def main(listed: Path, files: Sequence[Path]) -> None:
    pieces, teach = (HERE / "minilm_vocabulary.txt").read_text("utf-8").splitlines(), Teacher()
    # Letters and digits only: folding leaves no other words. Parts of words help to find the directions, no more.
    kept = [number for number, piece in enumerate(pieces) if piece.removeprefix("##").isalnum()]
    whole = [n for n, number in enumerate(kept) if not pieces[number].startswith("##")]
    names = [pieces[kept[n]] for n in whole]
    more = further(listed, names)
    vectors = teach([pieces[number].removeprefix("##") for number in kept] + more, "words")
    weights = rarity(len(kept), [pieces[number] for number in kept].index("the"))
    vectors -= vectors[: len(kept)].mean(0)
    _, directions = np.linalg.eigh(vectors[: len(kept)].T @ vectors[: len(kept)])
    directions = directions[:, ::-1][:, :DIMENSIONS]
    chosen = [*whole, *range(len(kept), len(vectors))]
    begin = vectors[chosen] @ directions
    begin /= np.linalg.norm(begin, axis=1, keepdims=True)
    begin *= np.concatenate([weights[whole], np.full(len(more), weights[-1])])[:, None]
    names += more

    known = {name: number for number, name in enumerate(names) if name not in ENGLISH.stop_words}
    texts = list(dict.fromkeys(said(files)))
    count = len(texts)
    texts += accompanied(list(known), texts)
    towards = teach(texts, "stretches")
    towards = (towards - towards[:count].mean(0)) @ directions
    towards /= np.linalg.norm(towards, axis=1, keepdims=True)
    stems: dict[str, int] = {}
    for name, number in known.items():
        stems.setdefault(stem(name), number)
    inside = [
        {known.get(word, stems.get(stem(word))) for word in words(text) if word not in ENGLISH.stop_words} - {None}
        for text in texts
    ]
    enough = [number for number, found in enumerate(inside) if len(found) > 1]
    now = moved(
        begin.astype(np.float32),
        [np.array(sorted(inside[number])) for number in enough],
        towards[enough].astype(np.float32),
    )

    _, turned = np.linalg.eigh(now.T.astype(np.float64) @ now)
    now = now @ turned[:, ::-1]
    largest = np.abs(now).max(1)
    table = np.zeros(len(names), [("scale", "<f4"), ("vector", "i1", DIMENSIONS)])
    table["scale"] = largest / 127
    table["vector"] = np.round(now / largest[:, None] * 127)
    np.save(HERE / "words.npy", table)
    (HERE / "words.txt").write_text("\n".join(names) + "\n", "utf-8")
    write_related()
    print(f"{len(names)} words, {(HERE / 'words.npy').stat().st_size / 1e6:.1f} MB", file=sys.stderr)


def write_related() -> None:
    """Keep the words related to each word of the table."""
    numbers = {name: number for number, name in enumerate((HERE / "words.txt").read_text("utf-8").splitlines(), 1)}
    found = np.zeros((len(numbers), MOST_RELATED), np.uint16)
    for number in numbers.values():
        others = [numbers[other] for other in find_related(number)]
        found[number - 1, : len(others)] = others
    np.save(HERE / "related.npy", found)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
