-- The owner of an agent: '' on an open server, 'human:NAME' for agents of a person's token. An agent with a token of its
-- own is its own owner: 'agent:ID'.
ALTER TABLE agents ADD COLUMN owner TEXT NOT NULL DEFAULT '';
-- Where the client of a connection works, as its hooks report. The folder is a path on the client's machine.
ALTER TABLE agent_connections ADD COLUMN program TEXT NOT NULL DEFAULT '';
ALTER TABLE agent_connections ADD COLUMN project TEXT NOT NULL DEFAULT '';
ALTER TABLE agent_connections ADD COLUMN folder TEXT NOT NULL DEFAULT '';
