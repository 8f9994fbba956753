-- Imports of uploads, so that every server can say how far one is. `state` is what the server answers, as JSON.
CREATE TABLE import_jobs (
    id text PRIMARY KEY,
    state text NOT NULL,
    changed_at bigint NOT NULL
);
