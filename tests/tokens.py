"""How many tokens a text has, counted with OpenAI's o200k_base vocabulary.

The vocabulary is inside the `splintr-rs` package, so nothing is downloaded when tests or benchmarks run. tiktoken
would download it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from typing import Any

from splintr import AnyTokenizer, Tokenizer


@cache
def o200k() -> AnyTokenizer:
    return Tokenizer.from_pretrained("o200k_base")


def count_tokens(texts: str | Iterable[str]) -> int:
    """The tokens of one text, or the sum over several texts, each counted by itself."""
    if isinstance(texts, str):
        return len(o200k().encode_ordinary(texts))
    return sum(len(o200k().encode_ordinary(text)) for text in texts)


def compact(value: Any) -> str:
    """JSON without white space, as servers send it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def tool_tokens(tool: dict[str, Any], *, output: bool = False) -> int:
    """The tokens of a tool in tools/list: its name, description and input schema as compact JSON.

    Clients give these three to the model. `output` adds the output schema, which some clients send as well.
    """
    parts = ("name", "description", "inputSchema", *(("outputSchema",) if output else ()))
    return count_tokens(compact({part: tool[part] for part in parts if part in tool}))
