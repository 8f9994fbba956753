"""Keys, tokens and private keys in text: only patterns that are hardly ever anything else."""

from __future__ import annotations

import re

_PATTERNS = {
    "an AWS access key": r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "an AWS secret key": r"(?i:secret_access_key)[\"']?\s*[=:]\s*[\"']?[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+])",
    "a GitHub token": r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,})",
    "a GitLab token": r"\bglpat-[A-Za-z0-9_-]{20,}",
    "a private key": r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----",
    "an Anthropic API key": r"\bsk-ant-[A-Za-z0-9_-]{20,}",
    "an OpenAI API key": r"\bsk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{32,}",
    "a Slack token": r"\bxox[abeoprs]-[0-9A-Za-z-]{10,}",
    "a Google API key": r"\bAIza[0-9A-Za-z_-]{35}",
    "a Stripe key": r"\b[rs]k_live_[0-9A-Za-z]{20,}",
    "a JSON web token": r"\beyJ[A-Za-z0-9_-]{15,}\.eyJ[A-Za-z0-9_-]{15,}\.[A-Za-z0-9_-]{10,}",
    "an Azure storage key": r"AccountKey=[A-Za-z0-9+/]{60,}={0,2}",
    "a palaver token": r"\bplv_[0-9A-Za-z]{38}\b",
}
_ANY = re.compile("|".join(f"(?P<p{n}>{pattern})" for n, pattern in enumerate(_PATTERNS.values())))
_NAMES = list(_PATTERNS)
_WHOLE_KEY = re.compile(
    r"(-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----).*?(?:-----END (?:[A-Z]+ )*PRIVATE KEY-----|\Z)", re.DOTALL
)
# Each secret holds one of these. Looking for them first is quicker than the patterns by far, and mostly enough.
_SIGNS = [
    "AKIA",
    "ASIA",
    "secret_access_key",
    "SECRET_ACCESS_KEY",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "PRIVATE",
    "sk-",
    "xox",
    "AIza",
    "k_live_",
    "eyJ",
    "AccountKey=",
    "plv_",
]


def secret_in(text: str) -> str | None:
    """What kind of secret the text holds, if any."""
    if not any(sign in text for sign in _SIGNS):
        return None
    found = _ANY.search(text)
    return _name(found) if found else None


def masked(text: str) -> str:
    """The text with the kind of each secret in place of it."""
    if secret_in(text) is None:
        return text
    return _ANY.sub(lambda found: f"[{_name(found)}]", _WHOLE_KEY.sub(r"\1", text))


def _name(found: re.Match[str]) -> str:
    assert found.lastgroup is not None
    return _NAMES[int(found.lastgroup[1:])]
