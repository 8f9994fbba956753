-- name: served_schema  the messages of somebody else's database, as they were read at one state of it
CREATE TABLE IF NOT EXISTS served (state TEXT NOT NULL, last_row INTEGER NOT NULL, is_whole INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS served_messages (
    id INTEGER PRIMARY KEY, native_id TEXT NOT NULL, conversation TEXT NOT NULL, title TEXT NOT NULL, role TEXT NOT NULL,
    text TEXT NOT NULL, created_at INTEGER, folded TEXT, folded_title TEXT
);
DROP INDEX IF EXISTS served_time;
CREATE INDEX IF NOT EXISTS served_newest ON served_messages (created_at, id, role);

-- name: served_state
SELECT state, last_row, is_whole FROM served;

-- name: serve_anew
DELETE FROM served_messages;
DELETE FROM served;

-- name: serve_state
INSERT INTO served (state, last_row, is_whole) VALUES (:state, -9223372036854775808, 0);

-- name: serve_message  what is plain ASCII is compared in lower case as it is
INSERT INTO served_messages (native_id, conversation, title, role, text, created_at, folded, folded_title)
VALUES (:native_id, :conversation, :title, :role, :text, :created_at, :folded, :folded_title);

-- name: serve_mark
UPDATE served SET last_row = :last_row, is_whole = :is_whole;

-- name: search_served  newest first; of one moment, the last in the database first
SELECT native_id, conversation, title, role, text, created_at FROM served_messages
WHERE (:roles IS NULL OR role IN (SELECT value FROM json_each(:roles)))
  AND created_at BETWEEN :since AND :until
  AND (:part = '' OR instr(coalesce(folded, lower(text)), :part) OR instr(coalesce(folded_title, lower(title)), :part))
ORDER BY created_at DESC, id DESC
LIMIT :limit;

-- name: search_served_timeless
SELECT native_id, conversation, title, role, text, created_at FROM served_messages
WHERE (:roles IS NULL OR role IN (SELECT value FROM json_each(:roles)))
  AND created_at IS NULL
  AND (:part = '' OR instr(coalesce(folded, lower(text)), :part) OR instr(coalesce(folded_title, lower(title)), :part))
ORDER BY id DESC
LIMIT :limit;
