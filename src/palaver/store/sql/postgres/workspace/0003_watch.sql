-- How far each followed file of another program has been read, and what makes it that file: where it lies on the disk, and
-- a hash of how it begins.
CREATE TABLE watched_files (
    path text PRIMARY KEY,
    reader text NOT NULL,
    place text NOT NULL,
    head_bytes bigint NOT NULL,
    head_hash text NOT NULL,
    bytes bigint NOT NULL,
    reading text NOT NULL
);
