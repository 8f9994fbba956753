"""Find and mask secrets in text: API keys, tokens, private keys, assigned passwords.

Patterns are strict, to match nothing else. Text is untrusted and may be a million characters long, so the search takes
linear time: each kind of secret has fixed characters (`signs`) that are found first, and the pattern is tried only
there. No pattern reads far before it fails, and none begins in the middle of a run that it would read again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class _Kind(NamedTuple):
    name: str
    pattern: re.Pattern[str]
    signs: tuple[str, ...]
    before: int = 0
    """The number of characters of the pattern before its sign."""


class _Found(NamedTuple):
    start: int
    end: int
    name: str


def _kind(name: str, pattern: str, *signs: str, before: int = 0) -> _Kind:
    return _Kind(name, re.compile(pattern), signs, before)


# The value of a password is a group, as only it is masked. Quotation marks may be escaped: tool calls are JSON.
_UPPER = "PASSWORD|PASSWD|PASSPHRASE"
_ASSIGNED = r"(?:\\?[\"'])?[ \t]{0,9}(?:=|:[ \t]{0,9}+(?!(?:str|SecretStr|bytes|None|Optional)\b))[ \t]{0,9}+"
_QUOTED = r"\\?(?:\"((?![\[$<{*%])[^\"\\\n]{1,300})\\?\"|'((?![\[$<{*%])[^'\\\n]{1,300})\\?')"
_BARE = r"((?![\[$<{*%(])[^\s\"'`;&|,\\]{3,})"

# An earlier kind wins where two begin at the same place.
_KINDS = (
    _kind("an AWS access key", r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b", "AKIA", "ASIA"),
    _kind(
        "an AWS secret key",
        r"(?i:secret_access_key)[\"']?\s{0,99}[=:]\s{0,99}[\"']?[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+])",
        "secret_access_key",
        "SECRET_ACCESS_KEY",
    ),
    _kind("a GitHub token", r"\bgh[pousr]_[A-Za-z0-9]{36,}", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    _kind("a GitHub token", r"\bgithub_pat_[A-Za-z0-9_]{40,}", "github_pat_"),
    _kind("a GitLab token", r"\bglpat-[A-Za-z0-9_-]{20,}", "glpat-"),
    _kind("a private key", r"-----BEGIN (?:[A-Z]{1,20} ){0,9}PRIVATE KEY-----", "-----BEGIN "),
    _kind("an Anthropic API key", r"\bsk-ant-[A-Za-z0-9_-]{20,}", "sk-ant-"),
    _kind("an OpenAI API key", r"\bsk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{32,}", "sk-"),
    _kind("a Slack token", r"\bxox[abeoprs]-[0-9A-Za-z-]{10,}", "xox"),
    _kind("a Google API key", r"\bAIza[0-9A-Za-z_-]{35}", "AIza"),
    _kind("a Stripe key", r"\b[rs]k_live_[0-9A-Za-z]{20,}", "k_live_", before=1),
    _kind(
        "a JSON web token",
        r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{15,}\.eyJ[A-Za-z0-9_-]{15,}\.[A-Za-z0-9_-]{10,}",
        "eyJ",
    ),
    _kind("an Azure storage key", r"AccountKey=[A-Za-z0-9+/]{60,}={0,2}", "AccountKey="),
    _kind("a palaver token", r"\bpl[var]_[0-9A-Za-z]{38}\b", "plv_", "pla_", "plr_"),
    # Passwords that are assigned to a name: DB_PASSWORD=…, "DB_PASSWORD": "…", PGPASSWORD='…', db_password="…".
    _kind("a password", rf"(?:{_UPPER})=(?:{_QUOTED}|{_BARE})", *_UPPER.split("|")),
    _kind("a password", rf"(?<=[A-Z0-9_])(?:{_UPPER}){_ASSIGNED}(?:{_QUOTED}|{_BARE})", *_UPPER.split("|")),
    _kind("a password", rf"(?<=[A-Z0-9])_PASS{_ASSIGNED}(?:{_QUOTED}|{_BARE})", "_PASS=", "_PASS:", '_PASS"', "_PASS "),
    _kind(
        "a password",
        rf"(?<=[a-z0-9]_)(?:password|passwd|passphrase)(?:{_ASSIGNED}{_QUOTED}|=(?=[^\s\d]{{0,60}}\d){_BARE})",
        "password", "passwd", "passphrase",
    ),
)  # fmt: skip
_TOKENS = tuple(kind for kind in _KINDS if kind.name != "a password")
_END_OF_KEY = re.compile(r"-----END (?:[A-Z]{1,20} ){0,9}PRIVATE KEY-----")


def secret_in(text: str) -> str | None:
    """The kind of the first key or token in the text; None if there is none. Assigned passwords do not count: people
    often write examples of them."""
    return next((found.name for found in _secrets(text, _TOKENS)), None)


def masked(text: str) -> str:
    """The text with each secret replaced by its kind: `[a GitHub token]`."""
    parts: list[str] = []
    done = 0
    for found in sorted(_secrets(text, _KINDS), key=lambda one: one.start):  # the sort is stable: an earlier kind wins
        if found.start < done:
            continue
        parts += [text[done : found.start], f"[{found.name}]"]
        done = found.end
        if found.name == "a private key":
            end = _END_OF_KEY.search(text, done)
            done = end.end() if end else len(text)
    return "".join([*parts, text[done:]])


def _secrets(text: str, kinds: Iterable[_Kind]) -> Iterator[_Found]:
    for kind in kinds:
        for sign in kind.signs:
            at = text.find(sign)
            while at >= 0:
                start = at - kind.before
                match = kind.pattern.match(text, start) if start >= 0 else None
                if match:
                    place = match.span(match.lastindex or 0)  # of a password its value, of all else the whole
                    yield _Found(*place, kind.name)
                at = text.find(sign, match.end() if match else at + 1)
