-- Substrings of imported messages and of their titles: a number for every three characters of the text, in lower case.
CREATE TABLE passage_trigrams (
    passage_id bigint PRIMARY KEY REFERENCES passages (id) ON DELETE CASCADE,
    trigrams integer[] NOT NULL
);
CREATE INDEX passage_trigrams_gin ON passage_trigrams USING gin (trigrams);

CREATE INDEX passages_time ON passages (created_at);
