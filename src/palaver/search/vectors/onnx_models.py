"""Local models of meaning: the shipped one, and sentence models of one's own.

The shipped one is all-MiniLM-L6-v2, tuned so that a question is near the messages that answer it. minilm.onnx has its
weights in 8 bits (23 MB); tools/learn_search.py and tools/pack_model.py made it. It runs with onnxruntime on one core,
needs no network, and is loaded when the first vector is made.

A model of one's own is a file `model.onnx` with its tokenizer beside it, as model hubs publish them: `tokenizer.json`,
for which the package `tokenizers` must be installed, or `vocab.txt` of a BERT model for texts in small letters. If the
model gives a vector for each piece of a text, their mean is taken, or the first one if `1_Pooling/config.json` says so.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

HERE = Path(__file__).parent
VERSION = "4"
"""Raised when the shipped weights change, so that all vectors are made again."""
MOST_PIECES = 256
"""Of one text, with the marks of its beginning and end. The model was trained with no more."""
LONGEST_WORD = 100


class MiniLM:
    """Makes the vector of a text."""

    def __init__(self, folder: Path = HERE, *, is_quick: bool = True) -> None:
        self._run = open_session(folder / "minilm.onnx", is_quick=is_quick).run
        self._pieces = Pieces((folder / "minilm_vocabulary.txt").read_text("utf-8").splitlines())

    def __call__(self, texts: Sequence[str]) -> Array:
        """A row of length one for each text. Each text runs alone: in a batch, texts would change each other's
        rounding."""
        import numpy as np

        rows = [self._run(None, {"pieces": np.array([self._pieces.of(text)], np.int64)})[0] for text in texts]
        found: Array = np.concatenate(rows)
        return found


def open_session(file: Path, *, is_quick: bool) -> Any:
    """A session that runs a model on one core. One that is not quick takes 15 MB less for MiniLM, and 6 instead of 3 ms
    for a question."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False  # it would keep the memory of the longest text
    options.enable_mem_pattern = False  # it would keep a plan for each length
    options.log_severity_level = 3
    if not is_quick:
        options.add_session_config_entry("session.disable_prepacking", "1")
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


# Pieces of words


class Pieces:
    """Texts as numbers of the pieces that they are made of, as BERT's uncased models cut them."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._numbers = {piece: number for number, piece in enumerate(vocabulary)}
        self._begin, self._end, self._unknown = (self._numbers[mark] for mark in ("[CLS]", "[SEP]", "[UNK]"))
        self._cut = lru_cache(maxsize=50_000)(self._word)

    def of(self, text: str) -> list[int]:
        found = [self._begin]
        for word in unicodedata.normalize("NFD", text).translate(_SIGNS).lower().split():
            found += self._cut(word)
            if len(found) >= MOST_PIECES:
                break
        return [*found[: MOST_PIECES - 1], self._end]

    def _word(self, word: str) -> tuple[int, ...]:
        """Again and again the longest piece there is; a word of which no piece is known is unknown as a whole."""
        if len(word) > LONGEST_WORD:
            return (self._unknown,)
        found, at = [], 0
        while at < len(word):
            for end in range(len(word), at, -1):
                number = self._numbers.get(word[at:end] if at == 0 else f"##{word[at:end]}")
                if number is not None:
                    found.append(number)
                    at = end
                    break
            else:
                return (self._unknown,)
        return tuple(found)


class _Signs(dict[int, str]):
    """What becomes of a sign: accents and control characters vanish, punctuation and ideographs stand alone."""

    def __missing__(self, code: int) -> str:
        sign, category = chr(code), unicodedata.category(chr(code))
        is_punctuation = category[0] == "P" or (code < 128 and category[0] == "S")
        if sign in "\t\n\r" or category == "Zs":
            found = " "
        elif category[0] == "C" or category == "Mn" or code == 0xFFFD:
            found = ""
        elif is_punctuation or any(first <= code <= last for first, last in _IDEOGRAPHS):
            found = f" {sign} "
        else:
            found = sign
        self[code] = found
        return found


_SIGNS = _Signs()
_IDEOGRAPHS = (
    (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF), (0x2A700, 0x2B81F), (0x2B820, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)  # fmt: skip


# A model of one's own


class OnnxModel:
    """Makes the vector of a text."""

    def __init__(self, name: str, *, is_quick: bool) -> None:
        file = file_of(name)
        session = open_session(file, is_quick=is_quick)
        self._run, self._inputs = session.run, [one.name for one in session.get_inputs()]
        self._pieces_of = _tokenizer(file.parent)
        pooling = file.parent / "1_Pooling" / "config.json"
        self._is_first = pooling.exists() and bool(json.loads(pooling.read_bytes()).get("pooling_mode_cls_token"))

    def __call__(self, texts: Sequence[str]) -> Array:
        """A row of length one for each text. Each text runs alone, so that texts do not change each other's vectors."""
        import numpy as np

        rows = []
        for text in texts:
            pieces = np.array([self._pieces_of(text)], np.int64)
            others = {"attention_mask": np.ones_like(pieces), "token_type_ids": np.zeros_like(pieces)}
            found = self._run(None, {name: others.get(name, pieces) for name in self._inputs})[0]
            rows.append(one_vector(found[0], is_first=self._is_first))
        return np.array(rows, np.float32)


def one_vector(found: Array, *, is_first: bool) -> Array:
    """The vector of a text, of length one, from what the model gives: that vector, or one for each piece."""
    import numpy as np

    if found.ndim == 2:
        found = found[0] if is_first else found.mean(0)
    row: Array = found / max(float(np.linalg.norm(found)), 1e-9)
    return row


def file_of(name: str) -> Path:
    """The file of a model that is given as a file or as its folder."""
    path = Path(name).expanduser()
    return path / "model.onnx" if path.is_dir() else path


@cache
def checksum(name: str) -> str:
    """What the vectors of a model are stored under: another file is another model, wherever it is."""
    try:
        with file_of(name).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    except OSError:
        return name


def _tokenizer(folder: Path) -> Callable[[str], list[int]]:
    table, vocabulary = folder / "tokenizer.json", folder / "vocab.txt"
    if table.exists() and importlib.util.find_spec("tokenizers"):
        tokenizer = importlib.import_module("tokenizers").Tokenizer.from_file(str(table))
        tokenizer.no_padding()
        tokenizer.enable_truncation(MOST_PIECES)
        return lambda text: list(tokenizer.encode(text).ids)
    if vocabulary.exists():
        return Pieces(vocabulary.read_text("utf-8").splitlines()).of
    needed = "the package tokenizers: pip install it" if table.exists() else "tokenizer.json or vocab.txt beside it"
    raise ValueError(f"it needs {needed}")
