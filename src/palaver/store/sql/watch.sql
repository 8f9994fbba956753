-- name: watched_files
SELECT path, reader, place, head_bytes, head_hash, bytes, reading FROM watched_files;

-- name: keep_watched
INSERT INTO watched_files (path, reader, place, head_bytes, head_hash, bytes, reading)
VALUES (:path, :reader, :place, :head_bytes, :head_hash, :bytes, :reading)
ON CONFLICT (path) DO UPDATE SET
    reader = excluded.reader, place = excluded.place, head_bytes = excluded.head_bytes,
    head_hash = excluded.head_hash, bytes = excluded.bytes, reading = excluded.reading;

-- name: forget_watched
DELETE FROM watched_files WHERE path = :path;

-- name: turn_ids
SELECT native_id FROM passages WHERE document_id = :document_id AND position > 0;

-- name: has_turn
SELECT 1 AS found FROM passages WHERE native_id = :native_id AND document_id = :document_id;
