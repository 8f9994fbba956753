-- Whatever can be opened: a thread, a session, a conversation, a note …
CREATE TABLE documents (
    id INTEGER PRIMARY KEY,
    source TEXT NOT NULL,
    native_id TEXT NOT NULL,
    title TEXT,
    agent_id TEXT,
    created_at INTEGER NOT NULL,
    modified_at INTEGER NOT NULL,
    version INTEGER NOT NULL DEFAULT 1,
    deleted_at INTEGER,
    data TEXT NOT NULL DEFAULT '{}',
    UNIQUE (source, native_id)
) STRICT;
CREATE INDEX documents_recent ON documents (source, modified_at);

-- The smallest piece that can be found: a message, a turn, a paragraph, a field. Position 0 is the title.
CREATE TABLE passages (
    id INTEGER PRIMARY KEY,
    document_id INTEGER NOT NULL REFERENCES documents (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    native_id TEXT NOT NULL,
    field TEXT NOT NULL,
    role TEXT,
    author TEXT,
    author_id TEXT,
    text TEXT NOT NULL,
    created_at INTEGER,
    data TEXT NOT NULL DEFAULT '{}'
) STRICT;
CREATE UNIQUE INDEX passages_position ON passages (document_id, position);
CREATE INDEX passages_native ON passages (native_id);

-- The one index. Words come folded; the tokenizer only cuts at blanks.
CREATE VIRTUAL TABLE passage_index USING fts5 (
    scope, exact, stem, content = '', contentless_delete = 1, tokenize = 'ascii'
);

CREATE TABLE threads (
    document_id INTEGER PRIMARY KEY REFERENCES documents (id) ON DELETE CASCADE,
    topic TEXT NOT NULL UNIQUE,
    status TEXT NOT NULL,
    last_seq INTEGER NOT NULL DEFAULT 0,
    message_count INTEGER NOT NULL DEFAULT 0,
    last_post_at INTEGER NOT NULL DEFAULT 0
) STRICT;

-- A retried post finds its first message here.
CREATE TABLE post_keys (
    document_id INTEGER NOT NULL REFERENCES documents (id) ON DELETE CASCADE,
    author TEXT NOT NULL,
    key TEXT NOT NULL,
    passage_id INTEGER NOT NULL REFERENCES passages (id) ON DELETE CASCADE,
    PRIMARY KEY (document_id, author, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX post_keys_passage ON post_keys (passage_id);

CREATE TABLE reactions (
    id TEXT PRIMARY KEY,
    passage_id INTEGER NOT NULL REFERENCES passages (id) ON DELETE CASCADE,
    agent_id TEXT,
    agent_name TEXT,
    reaction TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    number INTEGER NOT NULL
) STRICT;
-- One label by one agent on one message; nobody in particular counts as one agent.
CREATE UNIQUE INDEX reactions_once ON reactions (passage_id, coalesce(agent_id, ''), reaction);

CREATE TABLE edits (
    passage_id INTEGER NOT NULL REFERENCES passages (id) ON DELETE CASCADE,
    version INTEGER NOT NULL,
    old_content TEXT NOT NULL,
    edited_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (passage_id, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE agents (
    id TEXT PRIMARY KEY,
    slug TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL UNIQUE,
    display_name TEXT,
    description TEXT NOT NULL DEFAULT '',
    ide TEXT NOT NULL DEFAULT '',
    model TEXT NOT NULL DEFAULT '',
    capabilities TEXT NOT NULL DEFAULT '[]',
    skills TEXT NOT NULL DEFAULT '[]',
    token_hash TEXT,
    is_online INTEGER NOT NULL DEFAULT 0,
    registered_at INTEGER NOT NULL,
    last_heartbeat INTEGER NOT NULL,
    last_activity TEXT,
    last_activity_time INTEGER,
    waiting_in TEXT
) STRICT;

CREATE TABLE templates (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    description TEXT,
    system_prompt TEXT,
    default_metadata TEXT,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    type TEXT NOT NULL,
    thread_id TEXT,
    message_id TEXT,
    payload TEXT NOT NULL
) STRICT;
CREATE INDEX events_message ON events (message_id) WHERE message_id IS NOT NULL;

CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
INSERT INTO counters (name, value) VALUES ('events', 0);

-- When each author posted in the last minute; only kept where there is a rate limit.
CREATE TABLE post_times (author TEXT NOT NULL, at INTEGER NOT NULL) STRICT;
CREATE INDEX post_times_author ON post_times (author, at);
