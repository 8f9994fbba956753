-- Derived tables of a workspace, as the migrations leave them. They are created again, empty, if they are missing.

-- name: passage_index
CREATE VIRTUAL TABLE passage_index USING fts5 (
    scope, exact, stem, content = '', contentless_delete = 1, tokenize = 'ascii'
);
INSERT INTO passage_index (passage_index, rank) VALUES ('hashsize', 16777216);
INSERT INTO passage_index (passage_index, rank) VALUES ('automerge', 8);

-- name: passage_trigrams
CREATE VIRTUAL TABLE passage_trigrams USING fts5 (
    text, content = '', contentless_delete = 1, detail = none, tokenize = 'trigram case_sensitive 1'
);
INSERT INTO passage_trigrams (passage_trigrams, rank) VALUES ('hashsize', 33554432);
INSERT INTO passage_trigrams (passage_trigrams, rank) VALUES ('automerge', 16);
INSERT INTO counters (name, value) SELECT 'parts', 0 WHERE EXISTS (SELECT 1 FROM documents WHERE source = 'archive')
ON CONFLICT (name) DO UPDATE SET value = 0;

-- name: passage_threes
CREATE VIRTUAL TABLE passage_threes USING fts5vocab (passage_trigrams, instance);

-- name: passage_terms
CREATE VIRTUAL TABLE passage_terms USING fts5vocab (passage_index, row);

-- name: vectors
CREATE TABLE vectors (
    passage_id INTEGER PRIMARY KEY REFERENCES passages (id) ON DELETE CASCADE,
    model TEXT NOT NULL,
    made_at INTEGER NOT NULL,
    vector BLOB NOT NULL
) STRICT;

-- name: transcript_marks
CREATE TABLE transcript_marks (
    agent_id TEXT NOT NULL,
    file TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (agent_id, file)
) STRICT, WITHOUT ROWID;

-- name: search_sessions
CREATE TABLE search_sessions (
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    state TEXT NOT NULL,
    used_at INTEGER NOT NULL,
    PRIMARY KEY (owner, id)
) STRICT, WITHOUT ROWID;

-- name: mcp_sessions
CREATE TABLE mcp_sessions (
    id_hash TEXT PRIMARY KEY,
    token_id TEXT,
    opening TEXT NOT NULL,
    used_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
