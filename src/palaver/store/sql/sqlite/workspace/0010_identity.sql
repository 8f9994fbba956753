-- The client program an agent runs in (clientInfo.name), and the project it works on. Both may be unknown: ''.
ALTER TABLE agents ADD COLUMN client TEXT NOT NULL DEFAULT '';
ALTER TABLE agents ADD COLUMN project TEXT NOT NULL DEFAULT '';
-- True when no running client acts as this agent: its connection has ended, or it never had one.
ALTER TABLE agents ADD COLUMN is_released INTEGER NOT NULL DEFAULT 0;
CREATE INDEX agents_client ON agents (client, last_heartbeat);

-- Further secrets of an agent. Each time an agent comes back without one it gets a new one; the older ones stay valid.
CREATE TABLE agent_secrets (
    token_hash TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX agent_secrets_agent ON agent_secrets (agent_id, created_at);

-- Which agent a client's MCP session is. The session id is stored as a hash.
CREATE TABLE agent_connections (
    id_hash TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    used_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX agent_connections_agent ON agent_connections (agent_id);
CREATE INDEX agent_connections_used ON agent_connections (used_at);
