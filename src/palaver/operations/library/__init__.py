"""The library: notes, media, chats, characters and prompts.

Text is stored unchanged. An edit may name the version it is based on; it is rejected if there is a newer version.
"""

from palaver.operations.library import characters, chats, media, notes, prompts
from palaver.operations.library.characters import character_of
from palaver.operations.library.import_items import content_digest, fingerprint_of, id_of, import_outcome, import_piece
from palaver.operations.library.items import current
from palaver.operations.library.media import segments_of
from palaver.operations.library.prompts import find_prompt, prompt_of
from palaver.operations.library.trash import DELETE_AND_RESTORE
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
    *DELETE_AND_RESTORE,
)

__all__ = [
    "LIBRARY",
    "character_of",
    "content_digest",
    "current",
    "find_prompt",
    "fingerprint_of",
    "id_of",
    "import_outcome",
    "import_piece",
    "prompt_of",
    "segments_of",
]
