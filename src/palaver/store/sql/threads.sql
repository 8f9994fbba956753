-- name: insert_document  add a document
INSERT INTO documents (source, native_id, title, agent_id, created_at, modified_at, data)
VALUES (:source, :native_id, :title, :agent_id, :created_at, :created_at, :data)
RETURNING id;

-- name: insert_thread  returns no row if another caller has just created the topic
INSERT INTO threads (document_id, topic, status) VALUES (:document_id, :topic, :status)
ON CONFLICT (topic) DO NOTHING;

-- name: thread  one thread
SELECT d.id AS document_id, d.native_id AS id, t.topic, t.status, t.last_seq, t.message_count, t.last_post_at,
       d.created_at, d.modified_at, d.data
FROM documents d JOIN threads t ON t.document_id = d.id
WHERE d.source = 'bus' AND d.native_id = :id;

-- name: thread_by_topic  the thread with this topic
SELECT d.id AS document_id, d.native_id AS id, t.topic, t.status, t.last_seq, t.message_count, t.last_post_at,
       d.created_at, d.modified_at, d.data
FROM threads t JOIN documents d ON d.id = t.document_id
WHERE t.topic = :topic;

-- name: threads  threads, newest first, after a cursor
SELECT d.id AS document_id, d.native_id AS id, t.topic, t.status, t.last_seq, t.message_count, t.last_post_at,
       d.created_at, d.modified_at, d.data
FROM documents d JOIN threads t ON t.document_id = d.id
WHERE d.source = 'bus'
  AND (CAST(:status AS text) IS NULL OR t.status = :status)
  AND (CAST(:status AS text) IS NOT NULL OR :include_archived = 1 OR t.status <> 'archived')
  AND (d.created_at < :before OR (d.created_at = :before AND d.id < :before_id))
ORDER BY d.created_at DESC, d.id DESC
LIMIT :limit;

-- name: count_threads  the number of threads
SELECT count(*) AS total FROM threads t
WHERE (CAST(:status AS text) IS NULL OR t.status = :status)
  AND (CAST(:status AS text) IS NOT NULL OR :include_archived = 1 OR t.status <> 'archived');

-- name: next_seq  the row stays locked until the commit, so that numbers have no gaps or repeats
UPDATE threads SET last_seq = last_seq + 1, message_count = message_count + 1, last_post_at = :at
WHERE document_id = :document_id
RETURNING last_seq, status;

-- name: lock_thread  lock a thread until the commit; changes nothing
UPDATE threads SET last_seq = last_seq WHERE document_id = :document_id RETURNING last_seq, status;

-- name: subtract_message  a message was deleted
UPDATE threads SET message_count = message_count - 1 WHERE document_id = :document_id;

-- name: update_thread  change the topic or status
UPDATE threads SET topic = :topic, status = :status WHERE document_id = :document_id;

-- name: update_document  change the title and data of a document
UPDATE documents SET title = :title, modified_at = :modified_at, data = :data, version = version + 1 WHERE id = :id;

-- name: delete_document  delete a document with its passages
DELETE FROM documents WHERE id = :id;

-- name: delete_passages  delete all passages of a document
DELETE FROM passages WHERE document_id = :document_id;

-- name: passage_ids  the passages of a document
SELECT id FROM passages WHERE document_id = :document_id;

-- name: title_passage  the title of a document
SELECT id FROM passages WHERE document_id = :document_id AND position = 0;

-- name: has_posted  did an agent post in a thread?
SELECT 1 AS found FROM passages WHERE document_id = :document_id AND author_id = :agent_id AND position > 0 LIMIT 1;
