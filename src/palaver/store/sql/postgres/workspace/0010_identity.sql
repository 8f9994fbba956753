-- The client program an agent runs in (clientInfo.name), and the project it works on. Both may be unknown: ''.
ALTER TABLE agents ADD COLUMN client text NOT NULL DEFAULT '';
ALTER TABLE agents ADD COLUMN project text NOT NULL DEFAULT '';
-- True when no running client acts as this agent: its connection has ended, or it never had one.
ALTER TABLE agents ADD COLUMN is_released boolean NOT NULL DEFAULT false;
CREATE INDEX agents_client ON agents (client, last_heartbeat);

-- Further secrets of an agent. Each time an agent comes back without one it gets a new one; the older ones stay valid.
CREATE TABLE agent_secrets (
    token_hash text PRIMARY KEY,
    agent_id text NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    created_at bigint NOT NULL
);
CREATE INDEX agent_secrets_agent ON agent_secrets (agent_id, created_at);

-- Which agent a client's MCP session is. The session id is stored as a hash.
CREATE TABLE agent_connections (
    id_hash text PRIMARY KEY,
    agent_id text NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    used_at bigint NOT NULL
);
CREATE INDEX agent_connections_agent ON agent_connections (agent_id);
CREATE INDEX agent_connections_used ON agent_connections (used_at);
