-- name: served_schema  the tables of the cache of an external database
CREATE TABLE IF NOT EXISTS served (state TEXT NOT NULL, last_row INTEGER NOT NULL, is_whole INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS served_messages (
    id INTEGER PRIMARY KEY, native_id TEXT NOT NULL, conversation TEXT NOT NULL, title TEXT NOT NULL, role TEXT NOT NULL,
    text TEXT NOT NULL, created_at INTEGER, folded TEXT, folded_title TEXT
);
DROP INDEX IF EXISTS served_time;
CREATE INDEX IF NOT EXISTS served_newest ON served_messages (created_at, id, role);

-- name: served_state  the state of the external file when it was read, and how far
SELECT state, last_row, is_whole FROM served;

-- name: clear_served  empty the cache
DELETE FROM served_messages;
DELETE FROM served;

-- name: insert_served_state  begin to fill the cache for a state of the external file
INSERT INTO served (state, last_row, is_whole) VALUES (:state, -9223372036854775808, 0);

-- name: insert_served_message  ASCII texts are compared in lower case, so they need no folded copy
INSERT INTO served_messages (native_id, conversation, title, role, text, created_at, folded, folded_title)
VALUES (:native_id, :conversation, :title, :role, :text, :created_at, :folded, :folded_title);

-- name: update_served_state  store how far the external file was read
UPDATE served SET last_row = :last_row, is_whole = :is_whole;

-- name: search_served  newest first; messages of the same time in reverse order of the database
SELECT native_id, conversation, title, role, text, created_at FROM served_messages
WHERE (:roles IS NULL OR role IN (SELECT value FROM json_each(:roles)))
  AND created_at BETWEEN :since AND :until
  AND (:part = '' OR instr(coalesce(folded, lower(text)), :part) OR instr(coalesce(folded_title, lower(title)), :part))
ORDER BY created_at DESC, id DESC
LIMIT :limit;

-- name: search_served_timeless  messages without a time
SELECT native_id, conversation, title, role, text, created_at FROM served_messages
WHERE (:roles IS NULL OR role IN (SELECT value FROM json_each(:roles)))
  AND created_at IS NULL
  AND (:part = '' OR instr(coalesce(folded, lower(text)), :part) OR instr(coalesce(folded_title, lower(title)), :part))
ORDER BY id DESC
LIMIT :limit;
