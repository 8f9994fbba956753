CREATE TABLE workspaces (name TEXT PRIMARY KEY, created_at INTEGER NOT NULL) STRICT;

-- Credentials: a hash of the secret, and whom it speaks for.
CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    workspace TEXT NOT NULL REFERENCES workspaces (name) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    agent_id TEXT,
    scopes TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    last_used_at INTEGER
) STRICT;
