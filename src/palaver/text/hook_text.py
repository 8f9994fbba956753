"""The first lines of the texts that our hooks give to a model. Nobody typed these texts, so readers leave them out."""

from __future__ import annotations

NEW_FOR_YOU = "palaver: new messages for you."
GO_ON = "palaver: you were named while you worked. Deal with it, or answer with msg_post, before you stop."
WOKEN = "palaver: you were called. Answer with msg_post in the thread, or react."
RUNG = "palaver: a message for you arrived."
"""The prompt with which `palaver hook wait` wakes Codex."""
FROM_MEMORY = "palaver: from memory, for this prompt."


def is_hook_text(text: str) -> bool:
    """Whether a text in the user's name is one that our hooks gave to the model."""
    return text.lstrip().startswith((NEW_FOR_YOU, GO_ON, WOKEN, RUNG, FROM_MEMORY))
