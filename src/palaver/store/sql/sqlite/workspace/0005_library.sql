-- Whole texts, as they were given: the content of a note, the transcript of a recording, the fields of a prompt.
-- Their passages are cut from them.
CREATE TABLE bodies (
    document_id INTEGER NOT NULL REFERENCES documents (id) ON DELETE CASCADE,
    field TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (document_id, field)
) STRICT;

-- Which file a piece of the library came from, and what was in it then.
CREATE TABLE origins (
    origin TEXT PRIMARY KEY,
    source TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    document_id INTEGER NOT NULL REFERENCES documents (id) ON DELETE CASCADE
) STRICT;
CREATE INDEX origins_fingerprint ON origins (source, fingerprint);
CREATE INDEX origins_document ON origins (document_id);

INSERT INTO counters (name, value) VALUES ('media', 0), ('characters', 0);
