"""Client preferences: defaults for a few arguments, from the URL (`?config=`) or the initialize message.

They are numbers and an order only: no names, no credentials, no paths.
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from palaver.errors import Refused
from palaver.model.requests import clamp
from palaver.search.open import number

LONGEST = 4_000
MALFORMED = (
    "config cannot be read. In a URL it must be base64 of a JSON object such as "
    '{"snippet_length": 600, "max_tokens": 1500, "order_by": "recent"}; in initialize it may be the object itself.'
)


class ClientPreferences(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    snippet_length: Annotated[int, clamp(50, 1000)] | None = None
    max_tokens: Annotated[int, clamp(0, 200_000)] | None = None
    sibling_window: Annotated[int, clamp(0, 10)] | None = None
    order_by: Literal["relevance", "recent"] | None = None
    chars_per_token: Annotated[float, number(1, 20)] | None = None


def from_text(text: str) -> dict[str, Any]:
    """Preferences from base64, as in a URL: either alphabet, with or without padding and line ends.

    The error does not repeat the text: it may be a secret in the wrong place.
    """
    if len(text) > LONGEST:
        raise Refused(MALFORMED)
    try:
        plain = "".join(text.strip().splitlines()).replace("-", "+").replace("_", "/").replace(" ", "+").rstrip("=")
        raw = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
        given = orjson.loads(raw)
    except (ValueError, binascii.Error):
        raise Refused(MALFORMED) from None
    return _validate(given)


def from_given(given: Any) -> dict[str, Any]:
    """Preferences from a message: the object itself, or its base64."""
    return from_text(given) if isinstance(given, str) else _validate(given)


def _validate(given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise Refused(MALFORMED)
    try:
        return ClientPreferences.model_validate(given).model_dump(exclude_none=True)
    except ValidationError:
        raise Refused(MALFORMED) from None
