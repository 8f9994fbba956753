-- name: mark
SELECT bytes FROM transcript_marks WHERE agent_id = :agent_id AND file = :file;

-- name: move_mark
INSERT INTO transcript_marks (agent_id, file, bytes) VALUES (:agent_id, :file, :bytes)
ON CONFLICT (agent_id, file) DO UPDATE SET bytes = excluded.bytes;

-- name: forget_mark
DELETE FROM transcript_marks WHERE agent_id = :agent_id AND file = :file;

-- name: marks
SELECT agent_id, file, bytes FROM transcript_marks;

-- name: session_document
SELECT id, created_at, modified_at, data FROM documents WHERE source = 'sessions' AND native_id = :native_id;

-- name: last_position
SELECT coalesce(max(position), 0) AS position FROM passages WHERE document_id = :document_id;

-- name: passage_by_native
SELECT id, position, role, text, created_at FROM passages WHERE document_id = :document_id AND native_id = :native_id;

-- name: passages_of_document
SELECT id, position, native_id, role, text, created_at, data FROM passages
WHERE document_id = :document_id AND position > :after ORDER BY position LIMIT :limit;

-- name: replace_turn
UPDATE passages SET role = :role, text = :text, created_at = :created_at, data = :data WHERE id = :id;

-- name: describe_session
UPDATE documents SET data = :data WHERE id = :id;

-- name: call_session
UPDATE documents SET title = :title WHERE id = :id;

-- name: document_spoke
UPDATE documents SET modified_at = :modified_at WHERE id = :id AND modified_at < :modified_at;

-- name: is_indexed
SELECT count(*) AS rows FROM passages WHERE document_id = :document_id AND position > 0;
