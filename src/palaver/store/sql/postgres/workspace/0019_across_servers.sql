-- What all servers on one database must know, and a server after a restart.

-- Search sessions: the results that a client was shown. `state` is JSON.
CREATE TABLE search_sessions (
    owner text NOT NULL,
    id text NOT NULL,
    state text NOT NULL,
    used_at bigint NOT NULL,
    PRIMARY KEY (owner, id)
);
CREATE INDEX search_sessions_used ON search_sessions (used_at);

-- Rate limits: the calls of a tool that servers have reserved for a caller. `reserved` is JSON: [time, number] pairs.
CREATE TABLE reserved_calls (
    caller text NOT NULL,
    operation text NOT NULL,
    reserved text NOT NULL,
    used_at bigint NOT NULL,
    PRIMARY KEY (caller, operation)
);
CREATE INDEX reserved_calls_used ON reserved_calls (used_at);

-- MCP sessions over HTTP. `opening` has the parameters of the initialize message as JSON; it is empty after the end.
CREATE TABLE mcp_sessions (
    id_hash text PRIMARY KEY,
    token_id text,
    opening text NOT NULL,
    used_at bigint NOT NULL
);
CREATE INDEX mcp_sessions_used ON mcp_sessions (used_at);
