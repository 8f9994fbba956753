"""Put the trained adapter into MiniLM and write the model that palaver ships: int8, in ONNX format.

    python tools/pack_model.py --base DIR --adapter adapter-all.npz

DIR has model.safetensors and vocab.txt of all-MiniLM-L6-v2; the adapter comes from tools/learn_search.py. It writes
src/palaver/search/vectors/minilm.onnx and minilm_vocabulary.txt. Needs torch, onnx and onnxruntime.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

import numpy as np
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from torch import Tensor, nn
from torch.nn import functional

from minilm_base import tensors

HEADS, LAYERS, WIDTH = 12, 6, 384
HERE = Path(__file__).parent.parent / "src/palaver/search/vectors"


class Packed(nn.Module):
    """MiniLM without padding: all texts of a batch have the same number of pieces."""

    def __init__(self, weights: dict[str, np.ndarray]) -> None:
        super().__init__()
        for name, value in weights.items():
            self.register_buffer(name.replace(".", "_"), torch.tensor(np.array(value, np.float32)))

    def _get(self, at: str) -> tuple[Tensor, Tensor]:
        name = at.replace(".", "_")
        return getattr(self, f"{name}_weight"), getattr(self, f"{name}_bias")

    def _normal(self, x: Tensor, at: str) -> Tensor:
        return functional.layer_norm(x, (WIDTH,), *self._get(f"{at}.LayerNorm"), 1e-12)

    def forward(self, pieces: Tensor) -> Tensor:
        places = self.embeddings_position_embeddings_weight[: pieces.shape[1]]
        x = self.embeddings_word_embeddings_weight[pieces] + places + self.embeddings_token_type_embeddings_weight[0]
        x = self._normal(x, "embeddings")
        for number in range(LAYERS):
            at = f"encoder.layer.{number}"
            query, key, value = (
                functional.linear(x, *self._get(f"{at}.attention.self.{part}"))
                .reshape(pieces.shape[0], pieces.shape[1], HEADS, WIDTH // HEADS)
                .transpose(1, 2)
                for part in ("query", "key", "value")
            )
            share = (query @ key.transpose(-1, -2) * (WIDTH // HEADS) ** -0.5).softmax(-1)
            seen = (share @ value).transpose(1, 2).reshape(pieces.shape[0], pieces.shape[1], WIDTH)
            x = self._normal(
                x + functional.linear(seen, *self._get(f"{at}.attention.output.dense")), f"{at}.attention.output"
            )
            inner = functional.gelu(functional.linear(x, *self._get(f"{at}.intermediate.dense")))
            x = self._normal(x + functional.linear(inner, *self._get(f"{at}.output.dense")), f"{at}.output")
        return functional.normalize(x.mean(1), dim=-1)


def merged(base: dict[str, np.ndarray], adapter: Path) -> dict[str, np.ndarray]:
    """The base with the adapter added to its linear maps, without what is not needed to make a vector."""
    found = {name: np.array(value, np.float32) for name, value in base.items() if not name.startswith("pooler")}
    learned = np.load(adapter)
    for name in found:
        layer, part = name.removeprefix("encoder.layer.").removesuffix(".weight").partition(".")[::2]
        key = f"{layer}_{part.replace('.', '_')}"
        if name.endswith(".weight") and f"up.{key}" in learned:
            found[name] += learned[f"up.{key}"] @ learned[f"down.{key}"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--adapter", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=HERE)
    given = parser.parse_args()
    model = Packed(merged(tensors(given.base / "model.safetensors"), given.adapter)).eval()
    axes = {"pieces": {0: "texts", 1: "length"}, "vectors": {0: "texts"}}
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole.onnx"
        torch.onnx.export(
            model,
            (torch.zeros((2, 5), dtype=torch.int64),),
            str(whole),
            input_names=["pieces"],
            output_names=["vectors"],
            dynamic_axes=axes,
            opset_version=17,
            dynamo=False,
        )
        quantize_dynamic(whole, given.out / "minilm.onnx", weight_type=QuantType.QInt8, per_channel=True)
    shutil.copy(given.base / "vocab.txt", given.out / "minilm_vocabulary.txt")
    print(f"{(given.out / 'minilm.onnx').stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
