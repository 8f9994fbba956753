-- Programs that may ask for access with OAuth. Everybody can register one, so a row here allows nothing.
CREATE TABLE oauth_clients (
    id text PRIMARY KEY,
    name text NOT NULL,
    redirect_uris text NOT NULL,
    saved_at bigint NOT NULL,
    used_at bigint NOT NULL
);
CREATE INDEX oauth_clients_used ON oauth_clients (used_at);

-- A connected application: a client that a person let in. It ends with the token the person had logged in with.
CREATE TABLE oauth_grants (
    id text PRIMARY KEY,
    client_id text NOT NULL REFERENCES oauth_clients (id) ON DELETE CASCADE,
    token_id text NOT NULL REFERENCES tokens (id) ON DELETE CASCADE,
    application text NOT NULL,
    agent_id text NOT NULL,
    agent text NOT NULL,
    scopes text NOT NULL,
    resource text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    last_used_at bigint
);
CREATE INDEX oauth_grants_client ON oauth_grants (client_id);
CREATE INDEX oauth_grants_token ON oauth_grants (token_id);

-- Codes, access tokens and refresh tokens, as hashes. A used one stays, so that a second use is noticed.
CREATE TABLE oauth_secrets (
    hash text PRIMARY KEY,
    grant_id text NOT NULL REFERENCES oauth_grants (id) ON DELETE CASCADE,
    kind text NOT NULL,
    scopes text NOT NULL,
    redirect_uri text,
    code_challenge text,
    expires_at bigint NOT NULL,
    used_at bigint
);
CREATE INDEX oauth_secrets_grant ON oauth_secrets (grant_id);
CREATE INDEX oauth_secrets_live ON oauth_secrets (kind, expires_at);

-- The agent of each application of a person, so that it is the same agent when it connects again.
CREATE TABLE oauth_agents (
    workspace text NOT NULL REFERENCES workspaces (name) ON DELETE CASCADE,
    person text NOT NULL,
    application text NOT NULL,
    agent_id text NOT NULL,
    PRIMARY KEY (workspace, person, application)
);
