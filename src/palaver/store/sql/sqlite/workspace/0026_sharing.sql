-- Settings that hold for every server on this workspace: 'sharing' is how far agents read sessions.
CREATE TABLE workspace_settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

-- The project of a session or an imported conversation, so that statements need not parse its facts. Damaged facts have
-- none.
ALTER TABLE documents ADD COLUMN project TEXT
    GENERATED ALWAYS AS (CASE WHEN json_valid(data) THEN CAST(json_extract(data, '$.project') AS TEXT) END) VIRTUAL;
CREATE INDEX documents_by_project ON documents (source, agent_id, project);
