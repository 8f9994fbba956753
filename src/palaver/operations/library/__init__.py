"""The library: notes, media, chats, characters and prompts that people and agents keep.

Text is kept as it came. An edit may name the version it was made from: if somebody else was quicker, it is refused.
"""

from palaver.operations.library import characters, chats, media, notes, prompts
from palaver.operations.library.characters import shown_character
from palaver.operations.library.import_items import content_digest, fingerprint_of, id_of, import_outcome, import_piece
from palaver.operations.library.items import current
from palaver.operations.library.media import segments_of
from palaver.operations.library.prompts import named_prompt, shown_prompt
from palaver.operations.library.trash import AWAY_AND_BACK
from palaver.operations.operation import Operation

LIBRARY: tuple[Operation, ...] = (
    notes.create_note,
    notes.read_note,
    notes.update_note,
    notes.list_notes,
    media.create_media,
    media.read_media,
    media.update_media,
    media.list_media,
    chats.create_chat,
    chats.read_chat,
    chats.update_chat,
    chats.list_chats,
    chats.add_chat_message,
    chats.list_chat_messages,
    characters.create_character,
    characters.read_character,
    characters.update_character,
    characters.list_characters,
    prompts.create_prompt,
    prompts.read_prompt,
    prompts.update_prompt,
    prompts.list_prompts,
    *AWAY_AND_BACK,
)

__all__ = [
    "LIBRARY",
    "content_digest",
    "current",
    "fingerprint_of",
    "id_of",
    "import_outcome",
    "import_piece",
    "named_prompt",
    "segments_of",
    "shown_character",
    "shown_prompt",
]
