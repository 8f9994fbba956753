-- Webhooks. Kind 'out' sends events to `url`: those after `position`, and of one thread if `thread_id` is given. Other kinds
-- post in that thread what comes to an address whose secret part has the hash `key_hash`. `secret` signs. `next_at` is when
-- another attempt is due, also while a server sends. `disabled` says why nothing is sent.
CREATE TABLE webhooks (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    url TEXT NOT NULL,
    thread_id TEXT,
    events TEXT NOT NULL,
    from_webhooks INTEGER NOT NULL,
    secret TEXT NOT NULL,
    key_hash TEXT UNIQUE,
    created_at INTEGER NOT NULL,
    position INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    failing_since INTEGER,
    next_at INTEGER,
    disabled TEXT
) STRICT, WITHOUT ROWID;

-- What webhooks sent lately, with the id that the receiver knows it by. No texts.
CREATE TABLE webhook_calls (
    webhook_id TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    event TEXT NOT NULL,
    at INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    status INTEGER,
    problem TEXT,
    PRIMARY KEY (webhook_id, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX webhook_calls_at ON webhook_calls (at);
