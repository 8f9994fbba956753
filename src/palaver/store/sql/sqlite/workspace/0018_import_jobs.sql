-- Imports of uploads, so that every server can say how far one is. `state` is what the server answers, as JSON.
CREATE TABLE import_jobs (
    id TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    changed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
