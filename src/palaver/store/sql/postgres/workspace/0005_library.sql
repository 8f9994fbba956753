-- Whole texts, as they were given: the content of a note, the transcript of a recording, the fields of a prompt.
-- Their passages are cut from them.
CREATE TABLE bodies (
    document_id bigint NOT NULL REFERENCES documents (id) ON DELETE CASCADE,
    field text NOT NULL,
    text text NOT NULL,
    PRIMARY KEY (document_id, field)
);

-- Which file a piece of the library came from, and what was in it then.
CREATE TABLE origins (
    origin text PRIMARY KEY,
    source text NOT NULL,
    fingerprint text NOT NULL,
    document_id bigint NOT NULL REFERENCES documents (id) ON DELETE CASCADE
);
CREATE INDEX origins_fingerprint ON origins (source, fingerprint);
CREATE INDEX origins_document ON origins (document_id);

INSERT INTO counters (name, value) VALUES ('media', 0), ('characters', 0);
