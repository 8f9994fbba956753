-- Programs that may ask for access with OAuth. Everybody can register one, so a row here allows nothing.
CREATE TABLE oauth_clients (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    redirect_uris TEXT NOT NULL,
    saved_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL
) STRICT;
CREATE INDEX oauth_clients_used ON oauth_clients (used_at);

-- A connected application: a client that a person let in. It ends with the token the person had logged in with.
CREATE TABLE oauth_grants (
    id TEXT PRIMARY KEY,
    client_id TEXT NOT NULL REFERENCES oauth_clients (id) ON DELETE CASCADE,
    token_id TEXT NOT NULL REFERENCES tokens (id) ON DELETE CASCADE,
    application TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    agent TEXT NOT NULL,
    scopes TEXT NOT NULL,
    resource TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    last_used_at INTEGER
) STRICT;
CREATE INDEX oauth_grants_client ON oauth_grants (client_id);
CREATE INDEX oauth_grants_token ON oauth_grants (token_id);

-- Codes, access tokens and refresh tokens, as hashes. A used one stays, so that a second use is noticed.
CREATE TABLE oauth_secrets (
    hash TEXT PRIMARY KEY,
    grant_id TEXT NOT NULL REFERENCES oauth_grants (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    scopes TEXT NOT NULL,
    redirect_uri TEXT,
    code_challenge TEXT,
    expires_at INTEGER NOT NULL,
    used_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX oauth_secrets_grant ON oauth_secrets (grant_id);
CREATE INDEX oauth_secrets_live ON oauth_secrets (kind, expires_at);

-- The agent of each application of a person, so that it is the same agent when it connects again.
CREATE TABLE oauth_agents (
    workspace TEXT NOT NULL REFERENCES workspaces (name) ON DELETE CASCADE,
    person TEXT NOT NULL,
    application TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    PRIMARY KEY (workspace, person, application)
) STRICT, WITHOUT ROWID;
