-- The substring index has a number for each word (a run of a-z and 0-9) of a text, not for its characters. So it has a
-- quarter of the numbers, and GIN costs as much as there are numbers. The words are in a table of their own, where a part
-- of a word finds them. Other characters have numbers as before. Imported messages are indexed again after the start.
CREATE TABLE passage_runs (
    run text COLLATE "C" PRIMARY KEY,
    number integer NOT NULL,
    grams integer[] NOT NULL
);
CREATE INDEX passage_runs_grams ON passage_runs USING gin (grams);
TRUNCATE passage_trigrams;
INSERT INTO counters (name, value) SELECT 'parts', 0 WHERE EXISTS (SELECT 1 FROM documents WHERE source = 'archive')
ON CONFLICT (name) DO UPDATE SET value = 0;

-- A word that is its own stem is in the index once. The index is filled again after the start.
TRUNCATE passage_index, passage_parts, passage_totals;

-- Rows of the usual size stay in one piece. Compressing them took longer than writing them, and each search had to
-- decompress them.
ALTER TABLE passage_trigrams SET (toast_tuple_target = 8160);
ALTER TABLE passage_index SET (toast_tuple_target = 8160);
