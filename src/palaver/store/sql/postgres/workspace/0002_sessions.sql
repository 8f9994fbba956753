-- How much of each transcript stands in the index, in bytes.
CREATE TABLE transcript_marks (
    agent_id text NOT NULL,
    file text NOT NULL,
    bytes bigint NOT NULL,
    PRIMARY KEY (agent_id, file)
);

CREATE INDEX documents_agent ON documents (source, agent_id, modified_at) WHERE agent_id IS NOT NULL;
