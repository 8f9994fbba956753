-- Derived tables of a workspace, as the migrations leave them. They are created again, empty, if they are missing.

-- name: passage_index  with the tables that depend on it
DROP TABLE IF EXISTS passage_totals, passage_parts, passage_index CASCADE;
CREATE TABLE passage_totals (passages bigint NOT NULL, tokens bigint NOT NULL);
CREATE TABLE passage_parts (
    passage_id bigint NOT NULL REFERENCES passages (id) ON DELETE CASCADE,
    part bigint NOT NULL,
    words tsvector NOT NULL,
    PRIMARY KEY (passage_id, part)
);
CREATE TABLE passage_index (
    passage_id bigint PRIMARY KEY REFERENCES passages (id) ON DELETE CASCADE,
    length bigint NOT NULL,
    words tsvector NOT NULL,
    tokens text NOT NULL,
    stems text
);
ALTER TABLE passage_index SET (toast_tuple_target = 8160),
    ALTER COLUMN words SET STATISTICS 500,
    ALTER COLUMN stems SET STORAGE EXTERNAL, ALTER COLUMN tokens SET STORAGE EXTERNAL;
CREATE TRIGGER passage_index_added AFTER INSERT ON passage_index
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION add_to_totals();
CREATE TRIGGER passage_index_removed AFTER DELETE ON passage_index
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION take_from_totals();

-- name: passage_trigrams  with the words in it
DROP TABLE IF EXISTS passage_trigrams, passage_runs CASCADE;
CREATE TABLE passage_trigrams (
    passage_id bigint PRIMARY KEY REFERENCES passages (id) ON DELETE CASCADE,
    trigrams integer[] NOT NULL,
    created_at bigint
);
ALTER TABLE passage_trigrams SET (toast_tuple_target = 8160);
CREATE TABLE passage_runs (
    run text COLLATE "C" PRIMARY KEY,
    number integer NOT NULL,
    grams integer[] NOT NULL
);
INSERT INTO counters (name, value) SELECT 'parts', 0 WHERE EXISTS (SELECT 1 FROM documents WHERE source = 'archive')
ON CONFLICT (name) DO UPDATE SET value = 0;

-- name: vectors
CREATE TABLE vectors (
    passage_id bigint PRIMARY KEY REFERENCES passages (id) ON DELETE CASCADE,
    model text NOT NULL,
    made_at bigint NOT NULL,
    vector bytea NOT NULL
);

-- name: transcript_marks
CREATE TABLE transcript_marks (
    agent_id text NOT NULL,
    file text NOT NULL,
    bytes bigint NOT NULL,
    PRIMARY KEY (agent_id, file)
);

-- name: search_sessions
CREATE TABLE search_sessions (
    owner text NOT NULL,
    id text NOT NULL,
    state text NOT NULL,
    used_at bigint NOT NULL,
    PRIMARY KEY (owner, id)
);

-- name: mcp_sessions
CREATE TABLE mcp_sessions (
    id_hash text PRIMARY KEY,
    token_id text,
    opening text NOT NULL,
    used_at bigint NOT NULL
);

-- name: passage_index_words
CREATE INDEX passage_index_words ON passage_index USING gin (words);
ALTER INDEX passage_index_words SET (gin_pending_list_limit = 256);

-- name: passage_parts_words
CREATE INDEX passage_parts_words ON passage_parts USING gin (words) WITH (fastupdate = off);

-- name: passage_trigrams_gin
CREATE INDEX passage_trigrams_gin ON passage_trigrams USING gin (trigrams);
ALTER INDEX passage_trigrams_gin SET (gin_pending_list_limit = 256);

-- name: passage_trigrams_time
CREATE INDEX passage_trigrams_time ON passage_trigrams (created_at, passage_id);

-- name: passage_runs_grams
CREATE INDEX passage_runs_grams ON passage_runs USING gin (grams);
