"""The library: notes, media, chats, characters and prompts.

Text is stored unchanged. An edit may name the version it is based on; it is rejected if there is a newer version.
"""

from typing import Any

from palaver.operations.library import characters, chats, media, notes, prompts
from palaver.operations.library.characters import CHARACTERS
from palaver.operations.library.chats import CHATS
from palaver.operations.library.media import MEDIA
from palaver.operations.library.notes import NOTES
from palaver.operations.library.prompts import PROMPTS
from palaver.operations.operation import Operation
from palaver.store.engines.database import Reader
from palaver.store.library.items import LibraryItem

LIBRARY: tuple[Operation, ...] = (
    *notes.OPERATIONS[:4],
    *media.OPERATIONS[:4],
    *chats.OPERATIONS[:4],
    chats.add_chat_message,
    chats.list_chat_messages,
    *characters.OPERATIONS[:4],
    *prompts.OPERATIONS[:4],
    # Then those that delete and restore.
    *(one for source in (notes, media, chats, characters, prompts) for one in source.OPERATIONS[4:]),
)

_SOURCES = {source.name: source for source in (NOTES, MEDIA, CHATS, CHARACTERS, PROMPTS)}


def shown(read: Reader, kept: LibraryItem) -> Any:
    """An item as its own operations answer with it."""
    return _SOURCES[kept.source].show(read, kept)
