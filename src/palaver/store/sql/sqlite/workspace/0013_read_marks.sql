-- How far a reader has read a thread. A reader is an agent (its id) or a person (human:NAME).
CREATE TABLE read_marks (
    reader TEXT NOT NULL,
    document_id INTEGER NOT NULL REFERENCES documents (id) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    PRIMARY KEY (reader, document_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX read_marks_document ON read_marks (document_id);

-- When a person first asked what is new. Threads without a mark are read up to this time.
CREATE TABLE readers (reader TEXT PRIMARY KEY, since INTEGER NOT NULL) STRICT, WITHOUT ROWID;

-- Messages that are meant for somebody: they mention a name, hand over to it, or reply to it. Names are in lower case.
-- seen_at is when the message was shown to its receiver outside its thread.
CREATE TABLE mentions (
    name TEXT NOT NULL,
    passage_id INTEGER NOT NULL REFERENCES passages (id) ON DELETE CASCADE,
    document_id INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    seen_at INTEGER,
    PRIMARY KEY (name, passage_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX mentions_passage ON mentions (passage_id);
CREATE INDEX mentions_unseen ON mentions (name, passage_id) WHERE seen_at IS NULL;
