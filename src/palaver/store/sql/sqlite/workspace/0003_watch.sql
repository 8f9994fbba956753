-- How far each followed file of another program has been read, and what makes it that file: where it lies on the disk, and
-- a hash of how it begins.
CREATE TABLE watched_files (
    path TEXT PRIMARY KEY,
    reader TEXT NOT NULL,
    place TEXT NOT NULL,
    head_bytes INTEGER NOT NULL,
    head_hash TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    reading TEXT NOT NULL
) STRICT, WITHOUT ROWID;
