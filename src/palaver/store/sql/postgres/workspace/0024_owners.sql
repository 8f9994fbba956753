-- The owner of an agent: '' on an open server, 'human:NAME' for agents of a person's token. An agent with a token of its
-- own is its own owner: 'agent:ID'.
ALTER TABLE agents ADD COLUMN owner text NOT NULL DEFAULT '';
