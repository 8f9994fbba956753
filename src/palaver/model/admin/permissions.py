"""Who may do what: one row for each group of operations, with the scope and the rule for what others own.

`operations/operation.py` takes the scope of an operation from here. Functions in `model/visibility.py` and
`operations/identity.py` apply the rules. `make reference` writes the table into `docs/reference/permissions.md`, and
`tests/trust/test_permissions.py` tries every operation as every kind of caller.

These are the rules of a server with tokens. On an open server everybody has all scopes, and people are not told apart.
Agents are known by their connection there, and the rules for what others own hold for them too.
"""

from __future__ import annotations

from dataclasses import dataclass

from palaver.model.people import TokenScope


@dataclass(frozen=True, slots=True)
class Rule:
    """Who of those with the scope may do it."""

    name: str
    text: str


EVERYBODY = Rule("everybody", "everybody")
AUTHOR = Rule("author", "the author; admins who are people")
CREATOR = Rule("creator", "who created the thread; admins")
PARTICIPANT = Rule("participant", "who created the thread; people; agents that posted in it")
OWN_NAME = Rule("own name", "everybody, in their own name")
ITSELF = Rule("itself", "the agent itself, or who has the secret of the agent")
OWN_AGENTS = Rule("own agents", "the agent itself; the person it belongs to; admins who are people")
OWN_SESSIONS = Rule("own sessions", "people: sessions of all agents; agents: their own")
OWN_CLAIMS = Rule("own claims", "people: claims of everybody; agents: their own")
SHARED_SESSIONS = Rule("shared sessions", "people: sessions of all agents; agents: their own and shared ones")
MASKED = Rule("masked", "everybody; agents do not see messages for people only")
PEOPLE = Rule("people", "people")
OWN_APPLICATIONS = Rule("own applications", "people: what they let in themselves; admins: all of the workspace")
RULES = (
    EVERYBODY, AUTHOR, CREATOR, PARTICIPANT, OWN_NAME, ITSELF, OWN_AGENTS, OWN_SESSIONS, OWN_CLAIMS, SHARED_SESSIONS,
    MASKED, PEOPLE, OWN_APPLICATIONS,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    subject: str
    scope: TokenScope
    rule: Rule
    operations: tuple[str, ...]


def _row(subject: str, scope: TokenScope, rule: Rule, *operations: str) -> Row:
    return Row(subject, scope, rule, operations)


def _items(subject: str, noun: str, *more: str) -> tuple[Row, ...]:
    """Items of the library belong to everybody in the workspace. Deleted ones can be restored."""
    plural = {"media": "media"}.get(noun, f"{noun}s")
    reads = (f"read_{noun}", f"list_{plural}", f"search_{plural}", f"get_{plural}")
    writes = (f"create_{noun}", f"update_{noun}", f"delete_{noun}", f"restore_{noun}")
    changing = tuple(name for name in more if name.startswith(("add_", "fetch_")))
    reading = tuple(name for name in more if name not in changing)
    return (
        _row(subject, "read", EVERYBODY, *reads, *reading),
        _row(subject, "write", EVERYBODY, *writes, *changing),
    )


TABLE: tuple[Row, ...] = (
    _row("threads", "read", EVERYBODY, "list_threads", "get_thread", "list_participants"),
    _row("threads", "read", MASKED, "list_thread_previews", "export_thread"),
    _row("threads", "read", OWN_NAME, "mark_thread_read", "get_read_mark", "mark_all_read"),
    _row("threads", "write", EVERYBODY, "create_thread"),
    _row("threads", "write", PARTICIPANT, "update_thread", "close_thread", "archive_thread", "unarchive_thread"),
    _row("threads", "write", CREATOR, "delete_thread"),
    _row("messages", "read", MASKED, "list_messages", "get_message", "message_history", "get_receipts",
         "wait_for_messages", "search_messages", "search_bus", "get_bus"),
    _row("messages", "write", OWN_NAME, "post_message"),
    _row("messages", "write", AUTHOR, "edit_message", "delete_message"),
    _row("reactions", "read", EVERYBODY, "list_reactions"),
    _row("reactions", "write", OWN_NAME, "react", "unreact"),
    _row("questions", "read", OWN_NAME, "list_questions", "get_question"),
    _row("questions", "write", OWN_NAME, "ask_human"),
    _row("questions", "write", PEOPLE, "answer_question"),
    _row("claims on files", "read", SHARED_SESSIONS, "list_claims"),
    _row("claims on files", "write", OWN_NAME, "claim"),
    _row("claims on files", "write", OWN_CLAIMS, "release"),
    _row("templates", "read", EVERYBODY, "list_templates", "get_template"),
    _row("templates", "write", EVERYBODY, "create_template", "update_template", "delete_template"),
    _row("agents", "read", EVERYBODY, "list_agents", "get_agent"),
    _row("agents", "read", OWN_NAME, "catch_up", "list_mentions"),
    _row("agents", "write", OWN_NAME, "connect", "register_agent", "report_hook", "wait_for_wake", "ask_permission",
         "report_edit", "report_failure"),
    _row("agents", "write", ITSELF, "resume_agent", "heartbeat", "update_agent", "unregister_agent"),
    _row("agents", "write", OWN_AGENTS, "rename_agent"),
    _row("agents", "admin", EVERYBODY, "remove_agent"),
    _row("sessions", "read", SHARED_SESSIONS, "list_sessions", "show_session", "list_session_steps", "why",
         "find_fix", "list_fixes",
         "list_edits", "export_session", "search_sessions", "get_sessions", "search_all_conversations",
         "list_open_points"),
    _row("sessions", "read", OWN_SESSIONS, "search_conversations", "search_own_conversations"),
    _row("sessions", "write", OWN_SESSIONS, "record_turn", "record_own_turn", "merge_turns", "delete_session"),
    _row("sessions", "write", SHARED_SESSIONS, "close_point", "hand_off", "mark_fix_wrong"),
    _row("imported conversations", "read", EVERYBODY, "list_conversations", "get_conversation",
         "list_conversation_steps", "search_archive",
         "get_archive"),
    _row("the library", "read", SHARED_SESSIONS, "list_library"),
    *_items("notes", "note"),
    *_items("media", "media", "get_transcript", "fetch_media"),
    *_items("chats", "chat", "list_chat_messages", "add_chat_message"),
    *_items("characters", "character"),
    *_items("prompts", "prompt"),
    _row("everything", "read", MASKED, "search_knowledge", "get_knowledge", "open_uri", "answer_context", "research",
         "fetch", "complete_operator"),
    _row("saved searches", "read", OWN_NAME, "list_saved_searches", "save_search", "update_saved_search",
         "remove_saved_search"),
    _row("the server", "read", EVERYBODY, "get_config", "get_status", "get_overview"),
    _row("sharing of sessions", "read", EVERYBODY, "get_sharing"),
    _row("sharing of sessions", "admin", PEOPLE, "set_sharing"),
    _row("tokens", "admin", PEOPLE, "list_tokens", "create_token", "revoke_token"),
    _row("applications", "read", OWN_APPLICATIONS, "list_applications", "revoke_application"),
    _row("webhooks", "admin", PEOPLE, "add_webhook", "add_incoming_webhook", "list_webhooks", "delete_webhook",
         "enable_webhook", "test_webhook", "list_webhook_calls"),
    _row("administration", "admin", EVERYBODY, "list_workspaces", "list_deeds", "forget"),
)  # fmt: skip

PERMISSIONS: dict[str, Row] = {name: row for row in TABLE for name in row.operations}


def scope_of(operation: str) -> TokenScope:
    """The scope that an operation needs. One without a row needs admin, and fails a test."""
    return PERMISSIONS[operation].scope if operation in PERMISSIONS else "admin"


def must_be_person(operation: str) -> bool:
    """Whether an operation of admins is refused to agents before its arguments are read."""
    row = PERMISSIONS.get(operation)
    return row is not None and row.scope == "admin" and row.rule is PEOPLE
