-- How far a reader has read a thread. A reader is an agent (its id) or a person (human:NAME).
CREATE TABLE read_marks (
    reader text NOT NULL,
    document_id bigint NOT NULL REFERENCES documents (id) ON DELETE CASCADE,
    seq bigint NOT NULL,
    PRIMARY KEY (reader, document_id)
);
CREATE INDEX read_marks_document ON read_marks (document_id);

-- When a person first asked what is new. Threads without a mark are read up to this time.
CREATE TABLE readers (reader text PRIMARY KEY, since bigint NOT NULL);

-- Messages that are meant for somebody: they mention a name, hand over to it, or reply to it. Names are in lower case.
-- seen_at is when the message was shown to its receiver outside its thread.
CREATE TABLE mentions (
    name text NOT NULL,
    passage_id bigint NOT NULL REFERENCES passages (id) ON DELETE CASCADE,
    document_id bigint NOT NULL,
    seq bigint NOT NULL,
    seen_at bigint,
    PRIMARY KEY (name, passage_id)
);
CREATE INDEX mentions_passage ON mentions (passage_id);
CREATE INDEX mentions_unseen ON mentions (name, passage_id) WHERE seen_at IS NULL;
