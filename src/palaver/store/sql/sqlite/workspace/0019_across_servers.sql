-- What all servers on one database must know, and a server after a restart.

-- Search sessions: the results that a client was shown. `state` is JSON.
CREATE TABLE search_sessions (
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    state TEXT NOT NULL,
    used_at INTEGER NOT NULL,
    PRIMARY KEY (owner, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX search_sessions_used ON search_sessions (used_at);

-- Rate limits: the calls of a tool that servers have reserved for a caller. `reserved` is JSON: [time, number] pairs.
CREATE TABLE reserved_calls (
    caller TEXT NOT NULL,
    operation TEXT NOT NULL,
    reserved TEXT NOT NULL,
    used_at INTEGER NOT NULL,
    PRIMARY KEY (caller, operation)
) STRICT, WITHOUT ROWID;
CREATE INDEX reserved_calls_used ON reserved_calls (used_at);

-- MCP sessions over HTTP. `opening` has the parameters of the initialize message as JSON; it is empty after the end.
CREATE TABLE mcp_sessions (
    id_hash TEXT PRIMARY KEY,
    token_id TEXT,
    opening TEXT NOT NULL,
    used_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX mcp_sessions_used ON mcp_sessions (used_at);
