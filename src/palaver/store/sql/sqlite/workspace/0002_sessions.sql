-- How much of each transcript stands in the index, in bytes.
CREATE TABLE transcript_marks (
    agent_id TEXT NOT NULL,
    file TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (agent_id, file)
) STRICT, WITHOUT ROWID;

CREATE INDEX documents_agent ON documents (source, agent_id, modified_at) WHERE agent_id IS NOT NULL;
