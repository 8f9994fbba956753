-- Substrings of imported messages and of their titles: every three characters of the text, in lower case.
CREATE VIRTUAL TABLE passage_trigrams USING fts5 (
    text, content = '', contentless_delete = 1, tokenize = 'trigram case_sensitive 1'
);

CREATE INDEX passages_time ON passages (created_at);
