-- Claims on files. pattern: relative to the root of a worktree. agent_id: NULL for a person. owner: whose agent it is, or
-- who the person is. session: the connection whose end frees the claim, without the process of a hook; NULL if there is
-- none. ended: how it ended before expires_at: released, renewed, session ended, or who broke it.
CREATE TABLE claims (
    id text PRIMARY KEY,
    project text NOT NULL,
    project_key text NOT NULL,
    pattern text NOT NULL,
    kind text NOT NULL,
    ignores_case integer NOT NULL,
    holder text NOT NULL,
    agent_id text,
    owner text NOT NULL,
    session text,
    because text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    ended_at bigint,
    ended text
);
CREATE INDEX claims_held ON claims (project_key, expires_at) WHERE ended_at IS NULL;
CREATE INDEX claims_session ON claims (session) WHERE ended_at IS NULL;
