-- Claims on files. pattern: relative to the root of a worktree. agent_id: NULL for a person. owner: whose agent it is, or
-- who the person is. session: the connection whose end frees the claim, without the process of a hook; NULL if there is
-- none. ended: how it ended before expires_at: released, renewed, session ended, or who broke it.
CREATE TABLE claims (
    id TEXT PRIMARY KEY,
    project TEXT NOT NULL,
    project_key TEXT NOT NULL,
    pattern TEXT NOT NULL,
    kind TEXT NOT NULL,
    ignores_case INTEGER NOT NULL,
    holder TEXT NOT NULL,
    agent_id TEXT,
    owner TEXT NOT NULL,
    session TEXT,
    because TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    ended_at INTEGER,
    ended TEXT
) STRICT;
CREATE INDEX claims_held ON claims (project_key, expires_at) WHERE ended_at IS NULL;
CREATE INDEX claims_session ON claims (session) WHERE ended_at IS NULL;
