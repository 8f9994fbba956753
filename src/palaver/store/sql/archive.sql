-- name: conversation
SELECT id, native_id, title, created_at, modified_at, version, data FROM documents
WHERE source = 'archive' AND native_id = :native_id;

-- name: count_archive
SELECT count(*) AS conversations FROM documents WHERE source = 'archive';

-- name: replace_conversation
UPDATE documents SET title = :title, created_at = :created_at, modified_at = :modified_at, data = :data,
                     version = version + 1
WHERE id = :id;

-- name: conversations_of_origin  their ids begin with the name of the importer
SELECT id, native_id, data FROM documents WHERE source = 'archive' AND native_id LIKE :prefix;

-- name: mark_conversation
UPDATE documents SET data = :data WHERE id = :id;

-- name: parts_mark  there while older passages still wait for the index of their parts
SELECT value FROM counters WHERE name = 'parts';

-- name: move_parts_mark
UPDATE counters SET value = :value WHERE name = 'parts';

-- name: forget_parts_mark
DELETE FROM counters WHERE name = 'parts';

-- name: move_passage
UPDATE passages SET position = :position WHERE id = :id;
