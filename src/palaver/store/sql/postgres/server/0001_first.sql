CREATE TABLE workspaces (name text PRIMARY KEY, created_at bigint NOT NULL);

-- Credentials: a hash of the secret, and whom it speaks for.
CREATE TABLE tokens (
    id text PRIMARY KEY,
    hash text NOT NULL UNIQUE,
    workspace text NOT NULL REFERENCES workspaces (name) ON DELETE CASCADE,
    kind text NOT NULL,
    name text NOT NULL,
    agent_id text,
    scopes text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    last_used_at bigint
);
