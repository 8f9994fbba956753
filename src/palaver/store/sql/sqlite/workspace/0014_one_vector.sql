-- A passage has one vector. `made_at` (microseconds) tells a server which vectors it has not loaded yet.
DROP TABLE vectors;
CREATE TABLE vectors (
    passage_id INTEGER PRIMARY KEY REFERENCES passages (id) ON DELETE CASCADE,
    model TEXT NOT NULL,
    made_at INTEGER NOT NULL,
    vector BLOB NOT NULL
) STRICT;
CREATE INDEX vectors_by_time ON vectors (model, made_at);
