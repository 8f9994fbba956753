-- A tsvector keeps 255 places of a word and 16,383 places in all. A passage with more words is cut into parts, each with
-- a row of its own. `tokens` are the words in order, each with a blank before and after it: how often a phrase stands
-- there is counted in them. `length` counts tokens as SQLite's index does, so that bm25 is the same on both engines.
-- What is in the index already is written anew after the start.
DROP TABLE passage_index;
CREATE TABLE passage_index (
    passage_id bigint PRIMARY KEY REFERENCES passages (id) ON DELETE CASCADE,
    length bigint NOT NULL,
    words tsvector NOT NULL,
    tokens text NOT NULL
);
CREATE INDEX passage_index_words ON passage_index USING gin (words);
ALTER TABLE passage_index ALTER COLUMN words SET STATISTICS 500;

CREATE TABLE passage_parts (
    passage_id bigint NOT NULL REFERENCES passages (id) ON DELETE CASCADE,
    part bigint NOT NULL,
    words tsvector NOT NULL,
    PRIMARY KEY (passage_id, part)
);
CREATE INDEX passage_parts_words ON passage_parts USING gin (words);

-- How many passages and tokens the index has: a row for each change, so that no writer waits for another. They are
-- added up now and then.
CREATE TABLE passage_totals (passages bigint NOT NULL, tokens bigint NOT NULL);

CREATE FUNCTION add_to_totals() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO passage_totals SELECT count(*), sum(length) FROM added HAVING count(*) > 0;
    RETURN NULL;
END $$;
CREATE FUNCTION take_from_totals() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO passage_totals SELECT -count(*), -sum(length) FROM removed HAVING count(*) > 0;
    RETURN NULL;
END $$;
CREATE TRIGGER passage_index_added AFTER INSERT ON passage_index
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION add_to_totals();
CREATE TRIGGER passage_index_removed AFTER DELETE ON passage_index
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION take_from_totals();
