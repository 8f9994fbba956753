-- Open points of sessions that somebody closed. A point is a hash of its project and its words, so no text is kept here.
CREATE TABLE closed_points (
    point TEXT PRIMARY KEY,
    closed_at INTEGER NOT NULL,
    closed_by TEXT NOT NULL
) STRICT, WITHOUT ROWID;
