-- name: trash  deleted documents
SELECT id FROM documents WHERE deleted_at IS NOT NULL ORDER BY id LIMIT :limit;

-- name: passages_with_images  texts that may show an uploaded image
SELECT text, data FROM passages WHERE text LIKE '%/uploads/%' OR data LIKE '%/uploads/%'
UNION ALL
SELECT old_content, '' FROM edits WHERE old_content LIKE '%/uploads/%'
UNION ALL
SELECT text, '' FROM bodies WHERE text LIKE '%/uploads/%';

-- name: events_of_deleted  events about reactions, and about threads that no longer exist
SELECT e.id, e.type, e.message_id, e.payload FROM events e
WHERE e.type IN ('msg.react', 'msg.unreact', 'thread.new', 'thread.state', 'thread.deleted')
  AND (e.type LIKE 'msg.%' OR NOT EXISTS (
      SELECT 1 FROM documents d WHERE d.source = 'bus' AND d.native_id = e.thread_id AND d.deleted_at IS NULL))
ORDER BY e.id;

-- name: has_message  does a message exist?
SELECT 1 AS there FROM passages WHERE native_id = :id LIMIT 1;
