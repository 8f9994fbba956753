-- name: watched_files  how far each followed file was read
SELECT path, reader, place, head_bytes, head_hash, bytes, reading FROM watched_files;

-- name: watched_file  how far one followed file was read, and each session in it
SELECT path, reader, place, head_bytes, head_hash, bytes, reading FROM watched_files
WHERE path = :path OR substr(path, 1, length(:path) + 1) = :path || '#';

-- name: keep_watched  store how far a file was read
INSERT INTO watched_files (path, reader, place, head_bytes, head_hash, bytes, reading)
VALUES (:path, :reader, :place, :head_bytes, :head_hash, :bytes, :reading)
ON CONFLICT (path) DO UPDATE SET
    reader = excluded.reader, place = excluded.place, head_bytes = excluded.head_bytes,
    head_hash = excluded.head_hash, bytes = excluded.bytes, reading = excluded.reading;

-- name: forget_watched  a file was renamed
DELETE FROM watched_files WHERE path = :path;
