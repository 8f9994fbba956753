-- Long passages: each different word is in one part, without its places, so the index costs as much as the passage has
-- different words. Phrases are checked in `tokens`, or in `stems`, which are set where they differ from the tokens.
-- The index is filled again after the start.
TRUNCATE passage_index, passage_parts, passage_totals;
-- Compressing the tokens of a long text would take longer than all other work for it.
ALTER TABLE passage_index ADD COLUMN stems text,
    ALTER COLUMN stems SET STORAGE EXTERNAL, ALTER COLUMN tokens SET STORAGE EXTERNAL;
-- A row has very many words. With a pending list, one writer would have to index the words of all others.
DROP INDEX passage_parts_words;
CREATE INDEX passage_parts_words ON passage_parts USING gin (words) WITH (fastupdate = off);
