-- Settings that hold for every server on this workspace: 'sharing' is how far agents read sessions.
CREATE TABLE workspace_settings (name text PRIMARY KEY, value text NOT NULL);

-- The project of a session or an imported conversation, so that statements need not parse its facts.
ALTER TABLE documents ADD COLUMN project text GENERATED ALWAYS AS (CAST(data AS jsonb) ->> 'project') STORED;
CREATE INDEX documents_by_project ON documents (source, agent_id, project);
