-- name: conversation  one imported conversation
SELECT id, native_id, title, created_at, modified_at, version, data FROM documents
WHERE source = 'archive' AND native_id = :native_id;

-- name: count_archive  the number of imported conversations
SELECT count(*) AS conversations FROM documents WHERE source = 'archive';

-- name: replace_conversation  store the new state of a conversation
UPDATE documents SET title = :title, created_at = :created_at, modified_at = :modified_at, data = :data,
                     version = version + 1
WHERE id = :id;

-- name: conversations_of_origin  conversations whose ids begin with the name of an importer
SELECT id, native_id, data FROM documents WHERE source = 'archive' AND native_id LIKE :prefix;

-- name: mark_conversation  replace the data of a conversation
UPDATE documents SET data = :data WHERE id = :id;

-- name: parts_mark  exists while the substring index is being filled; the value is the last indexed passage
SELECT value FROM counters WHERE name = 'parts';

-- name: move_parts_mark  store how far the substring index is filled
UPDATE counters SET value = :value WHERE name = 'parts';

-- name: forget_parts_mark  the substring index is complete
DELETE FROM counters WHERE name = 'parts';

-- name: restart_substring_index  fill the substring index again, from the first imported message on
INSERT INTO counters (name, value) SELECT 'parts', 0 WHERE EXISTS (SELECT 1 FROM documents WHERE source = 'archive')
ON CONFLICT (name) DO UPDATE SET value = 0;

-- name: put_import_job  the state of an import, new or changed
INSERT INTO import_jobs (id, state, changed_at) VALUES (:id, :state, :changed_at)
ON CONFLICT (id) DO UPDATE SET state = excluded.state, changed_at = excluded.changed_at;

-- name: import_job  the state of an import
SELECT state, changed_at FROM import_jobs WHERE id = :id;

-- name: forget_import_jobs  imports that ended long ago
DELETE FROM import_jobs WHERE changed_at < :before;

-- name: conversations  imported conversations, the latest first
SELECT d.id, d.native_id, d.title, d.created_at, d.modified_at, d.data,
       (SELECT count(*) FROM passages p WHERE p.document_id = d.id AND p.position > 0) AS messages
FROM documents d
WHERE d.source = 'archive'
  AND (CAST(:projects AS text) IS NULL OR d.project IN (SELECT value FROM json_each(:projects)))
ORDER BY d.modified_at DESC, d.id DESC LIMIT :limit OFFSET :offset;

-- name: conversations_of_project  imported conversations of a project
SELECT id, data FROM documents WHERE source = 'archive' AND project = :project ORDER BY id LIMIT :limit;

-- name: insert_conversations  documents of imported conversations
INSERT INTO documents (id, source, native_id, title, created_at, modified_at, data)
SELECT {int value ->> 0}, 'archive', value ->> 1, value ->> 2, {int value ->> 3},
       {int value ->> 4}, value ->> 5
FROM {rows};

-- name: insert_branches  texts of imported conversations that were not shown last
INSERT INTO bodies (document_id, field, text)
SELECT {int value ->> 0}, value ->> 1, value ->> 2 FROM {rows};

-- name: known_conversations  the stored states of these conversations
SELECT id, native_id, modified_at, data FROM documents
WHERE source = 'archive' AND native_id IN (SELECT value FROM json_each(:ids));

-- name: archive_among  the messages of these passages, newest first; a title means all messages of its conversation
WITH hits AS (SELECT value AS id FROM ({ids}) AS given), wanted AS (
    SELECT id FROM hits
    UNION
    SELECT m.id FROM hits h JOIN passages t ON t.id = h.id AND t.position = 0
                            JOIN passages m ON m.document_id = t.document_id
)
SELECT p.id FROM wanted w JOIN passages p ON p.id = w.id
WHERE p.position > 0
  AND (CAST(:roles AS text) IS NULL OR p.role IN (SELECT value FROM json_each(:roles)))
  AND (p.created_at BETWEEN :since AND :until OR (:any_time = 1 AND p.created_at IS NULL))
ORDER BY p.created_at IS NULL, p.created_at DESC, p.id DESC;

-- name: archive_messages  imported messages by id
SELECT p.id AS passage_id, p.native_id AS id, p.role, p.text, p.created_at, d.native_id AS conversation, d.title,
       d.data
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.id IN ({ids});

-- name: conversations_below  the conversations of subagents that a conversation started
SELECT native_id, title, created_at FROM documents
WHERE source = 'archive' AND {json data parent} = :parent ORDER BY created_at, id LIMIT 1000;
