-- The owner of an agent: '' on an open server, 'human:NAME' for agents of a person's token. An agent with a token of its
-- own is its own owner: 'agent:ID'.
ALTER TABLE agents ADD COLUMN owner text NOT NULL DEFAULT '';
-- Where the client of a connection works, as its hooks report. The folder is a path on the client's machine.
ALTER TABLE agent_connections ADD COLUMN program text NOT NULL DEFAULT '';
ALTER TABLE agent_connections ADD COLUMN project text NOT NULL DEFAULT '';
ALTER TABLE agent_connections ADD COLUMN folder text NOT NULL DEFAULT '';
