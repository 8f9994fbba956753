-- A passage has one vector. `made_at` (microseconds) tells a server which vectors it has not loaded yet.
DROP TABLE vectors;
CREATE TABLE vectors (
    passage_id bigint PRIMARY KEY REFERENCES passages (id) ON DELETE CASCADE,
    model text NOT NULL,
    made_at bigint NOT NULL,
    vector bytea NOT NULL
);
CREATE INDEX vectors_by_time ON vectors (model, made_at);
