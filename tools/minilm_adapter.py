"""MiniLM with a low-rank adapter, in PyTorch, and how tools/learn_search.py trains it.

Each batch has 32 questions. A question must find its answer among its own seven wrong messages (four of them from the
search's best thirty) and all messages of the other questions of the batch (InfoNCE). In every fourth batch users'
messages must find their replies instead.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from palaver.search.vectors.onnx_models import Pieces

HEADS, LAYERS, WIDTH, RANK, SEED = 12, 6, 384, 16, 20
SCALE, WARM = 20.0, 50
QUESTIONS, WRONG, FROM_BEST = 32, 7, 4
PUBLIC = 0.4
"""The share of the batches of questions that are about public texts."""
PAIRS_EVERY, PAIRS = 4, 96
MOST_OF_QUESTION, GROUPS, TOGETHER = 64, 3, 512
PARTS = (*(f"attention.{part}" for part in ("self.query", "self.key", "self.value", "output.dense")),)
PARTS += ("intermediate.dense", "output.dense")
Rows: TypeAlias = Sequence[np.ndarray]
Pairs: TypeAlias = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Question:
    """A question, messages that answer it, and wrong ones, all by the numbers of their texts."""

    text: int
    answers: list[int]
    best: list[int]
    """Wrong messages that the search ranks high."""
    others: list[int]
    """Wrong messages at random."""
    half: int
    is_public: bool


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


def cut_texts(texts: Sequence[str], vocabulary: Path) -> list[np.ndarray]:
    """The pieces of words of each text."""
    words = vocabulary.read_text("utf-8").splitlines()
    with ProcessPoolExecutor(initializer=_load, initargs=(words,)) as pool:
        return list(pool.map(_cut, texts, chunksize=500))


_pieces: Pieces


def _load(words: list[str]) -> None:
    global _pieces
    _pieces = Pieces(words)


def _cut(text: str) -> np.ndarray:
    return np.array(_pieces.of(text), np.int32)


def _shortened(pieces: np.ndarray) -> np.ndarray:
    """The pieces of a question."""
    return pieces if len(pieces) <= MOST_OF_QUESTION else np.append(pieces[: MOST_OF_QUESTION - 1], pieces[-1])


def batch(rows: list[np.ndarray], device: str) -> tuple[Tensor, Tensor]:
    longest = max(map(len, rows))
    pieces = np.zeros((len(rows), longest), np.int64)
    used = np.zeros((len(rows), longest), bool)
    for number, row in enumerate(rows):
        pieces[number, : len(row)], used[number, : len(row)] = row, True
    return torch.tensor(pieces, device=device), torch.tensor(used, device=device)


def train(
    base: dict[str, np.ndarray], pieces: Rows, questions: list[Question], pairs: Pairs, batches: int, step_size: float
) -> Model:
    """Train an adapter. `pieces` has a row for each text; `pairs` are messages of users and the replies to them."""
    torch.manual_seed(SEED)
    torch.backends.cuda.matmul.allow_tf32 = True
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Model(base).to(device)
    dice = random.Random(SEED)
    optimizer = torch.optim.AdamW(model.parameters(), lr=step_size, weight_decay=0.01)
    source = [[one for one in questions if one.is_public == is_public] for is_public in (False, True)]
    order: list[list[Question]] = [[], []]
    began = time.time()
    for step in range(batches):
        for group in optimizer.param_groups:
            group["lr"] = step_size * min(1.0, (step + 1) / WARM) * (1 - step / batches)
        if step % PAIRS_EVERY == PAIRS_EVERY - 1:
            some = dice.sample(pairs, min(PAIRS, len(pairs)))
            asked, told = [_shortened(pieces[a]) for a, _ in some], [pieces[b] for _, b in some]
            right = np.arange(len(some))
            mask = np.zeros((len(some), len(some)), bool)
        else:
            is_public = int(bool(source[1]) and (dice.random() < PUBLIC or not source[0]))
            if len(order[is_public]) < QUESTIONS:
                order[is_public] = source[is_public][:]
                dice.shuffle(order[is_public])
            rows, order[is_public] = order[is_public][:QUESTIONS], order[is_public][QUESTIONS:]
            numbers, starts = list[int](), list[int]()
            for one in rows:
                starts.append(len(numbers))
                best = dice.sample(one.best, min(FROM_BEST, len(one.best)))
                others = dice.sample(one.others, min(WRONG - len(best), len(one.others)))
                numbers += [dice.choice(one.answers), *best, *others]
            asked, told = [_shortened(pieces[one.text]) for one in rows], [pieces[number] for number in numbers]
            right = np.array(starts)
            mask = np.array([np.isin(numbers, one.answers) for one in rows])
            mask[np.arange(len(rows)), right] = False
        scores = SCALE * encode(model, asked, 1) @ encode(model, told, GROUPS).T
        scores = scores.masked_fill(torch.tensor(mask, device=device), -1e9)
        loss = functional.cross_entropy(scores, torch.tensor(right, device=device))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 49:
            print(f"  batch {step + 1}: loss {loss.item():.3f}, {time.time() - began:.0f} s", flush=True)
    return model


def encode(model: Model, rows: Rows, groups: int) -> Tensor:
    """The vectors of texts. Texts of about the same length go through the network together."""
    device = str(next(model.parameters()).device)
    order = np.array(sorted(range(len(rows)), key=lambda number: len(rows[number])))
    weights = model.weights()
    parts = [batch([rows[number] for number in some], device) for some in np.array_split(order, groups)]
    found = torch.cat([model(weights, *part) for part in parts])
    return found[torch.tensor(np.argsort(order, kind="stable"), device=device)]


@torch.no_grad()
def vectors(model: Model, rows: Rows) -> np.ndarray:
    """The vectors of many texts, to keep."""
    return encode(model, rows, len(rows) // TOGETHER + 1).half().cpu().numpy()


def save(model: Model, path: Path) -> None:
    parts = [(kind, one) for kind in ("down", "up") for one in getattr(model, kind).items()]
    np.savez(path, **{f"{kind}.{name}": value.detach().cpu().numpy() for kind, (name, value) in parts})
