-- name: advance_read_mark  a reader has read a thread up to a seq; a mark never moves back
INSERT INTO read_marks (reader, document_id, seq) VALUES (:reader, :document_id, :seq)
ON CONFLICT (reader, document_id) DO UPDATE SET seq = excluded.seq WHERE read_marks.seq < excluded.seq;

-- name: advance_read_mark_of_thread  the same, for the id of a thread
INSERT INTO read_marks (reader, document_id, seq)
SELECT :reader, d.id, :seq FROM documents d WHERE d.source = 'bus' AND d.native_id = :thread_id
ON CONFLICT (reader, document_id) DO UPDATE SET seq = excluded.seq WHERE read_marks.seq < excluded.seq;

-- name: join_thread  a reader takes part in a thread from a seq on, unless it did before
INSERT INTO read_marks (reader, document_id, seq) VALUES (:reader, :document_id, :seq) ON CONFLICT DO NOTHING;

-- name: set_read_mark  set how far a reader has read a thread, also back
INSERT INTO read_marks (reader, document_id, seq) VALUES (:reader, :document_id, :seq)
ON CONFLICT (reader, document_id) DO UPDATE SET seq = excluded.seq;

-- name: read_mark  how far a reader has read a thread
SELECT seq FROM read_marks WHERE reader = :reader AND document_id = :document_id;

-- name: mark_all_threads_read  a person has read every thread to its end
INSERT INTO read_marks (reader, document_id, seq)
SELECT CAST(:reader AS text), t.document_id, t.last_seq FROM threads t WHERE t.last_seq > 0
ON CONFLICT (reader, document_id) DO UPDATE SET seq = excluded.seq WHERE read_marks.seq < excluded.seq;

-- name: mark_own_threads_read  an agent has read every thread it takes part in to its end
UPDATE read_marks SET seq = (SELECT t.last_seq FROM threads t WHERE t.document_id = read_marks.document_id)
WHERE reader = :reader AND seq < (SELECT t.last_seq FROM threads t WHERE t.document_id = read_marks.document_id);

-- name: read_since  when a person first asked what is new
SELECT since FROM readers WHERE reader = :reader;

-- name: insert_reader  store when a person first asked what is new
INSERT INTO readers (reader, since) VALUES (:reader, :since) ON CONFLICT DO NOTHING;

-- name: forget_read_marks  remove all marks of a reader
DELETE FROM read_marks WHERE reader = :reader;

-- name: unread_threads_of_agent  threads that an agent takes part in and has not read to the end, latest first
SELECT d.id AS document_id, d.native_id AS id, t.topic, t.status, t.last_seq, t.message_count, t.last_post_at,
       d.created_at, d.modified_at, d.data, m.seq AS read_seq
FROM read_marks m JOIN threads t ON t.document_id = m.document_id JOIN documents d ON d.id = t.document_id
WHERE m.reader = :reader AND t.status <> 'archived' AND t.last_post_at >= :since
  AND (:also_read = 1 OR t.last_seq > m.seq)
ORDER BY t.last_post_at DESC LIMIT :limit;

-- name: unread_threads_of_person  threads that a person has not read to the end, latest first
SELECT d.id AS document_id, d.native_id AS id, t.topic, t.status, t.last_seq, t.message_count, t.last_post_at,
       d.created_at, d.modified_at, d.data, m.seq AS read_seq
FROM threads t JOIN documents d ON d.id = t.document_id
LEFT JOIN read_marks m ON m.document_id = t.document_id AND m.reader = :reader
WHERE t.status <> 'archived' AND (t.last_post_at >= :since OR (:also_read = 0 AND m.seq IS NOT NULL))
  AND (:also_read = 1 OR t.last_seq > coalesce(m.seq, 0))
ORDER BY t.last_post_at DESC LIMIT :limit;

-- name: seq_at_time  the seq of the last message before a time
SELECT position AS seq FROM passages
WHERE document_id = :document_id AND position > 0 AND created_at < :before
ORDER BY position DESC LIMIT 1;

-- name: count_unread  how many messages of others are after a seq, up to a limit
SELECT count(*) AS unread FROM (
    SELECT 1 FROM passages
    WHERE document_id = :document_id AND position > :after_seq
      AND (CAST(:agent_id AS text) IS NULL OR coalesce(author_id, '') <> :agent_id)
      AND (CAST(:person AS text) IS NULL OR author_id IS NOT NULL OR author <> :person)
    LIMIT :limit
) AS found;

-- name: posted_after  did somebody post in a thread after a seq?
SELECT 1 AS found FROM passages
WHERE document_id = :document_id AND position > :seq
  AND (CAST(:agent_id AS text) IS NULL OR author_id = :agent_id)
  AND (CAST(:person AS text) IS NULL OR (author_id IS NULL AND author = :person))
LIMIT 1;

-- name: insert_mention  a message is meant for this name
INSERT INTO mentions (name, passage_id, document_id, seq) VALUES (:name, :passage_id, :document_id, :seq)
ON CONFLICT DO NOTHING;

-- name: delete_mentions  before the mentions of an edited message are stored again
DELETE FROM mentions WHERE passage_id = :passage_id AND seen_at IS NULL;

-- name: mentions_of  the newest messages that are meant for a name
SELECT n.passage_id, n.document_id, n.seq, n.seen_at, d.native_id AS thread_id, t.topic, m.seq AS read_seq,
       p.native_id AS id, p.author, p.author_id, p.role, p.text, p.created_at, p.data
FROM mentions n JOIN passages p ON p.id = n.passage_id
JOIN documents d ON d.id = n.document_id JOIN threads t ON t.document_id = n.document_id
LEFT JOIN read_marks m ON m.document_id = n.document_id AND m.reader = :reader
WHERE n.name = :name AND t.status <> 'archived' AND p.created_at >= :since
ORDER BY n.passage_id DESC LIMIT :limit;

-- name: unseen_mentions_of  the oldest messages that are meant for a name and were not shown to it
SELECT n.passage_id, n.document_id, n.seq, n.seen_at, d.native_id AS thread_id, t.topic, m.seq AS read_seq,
       p.native_id AS id, p.author, p.author_id, p.role, p.text, p.created_at, p.data
FROM mentions n JOIN passages p ON p.id = n.passage_id
JOIN documents d ON d.id = n.document_id JOIN threads t ON t.document_id = n.document_id
LEFT JOIN read_marks m ON m.document_id = n.document_id AND m.reader = :reader
WHERE n.name = :name AND n.seen_at IS NULL AND t.status <> 'archived' AND n.seq > coalesce(m.seq, 0)
ORDER BY n.passage_id LIMIT :limit;

-- name: mention_seen  a message was shown to its receiver; returns no row if it was shown before
UPDATE mentions SET seen_at = :at WHERE name = :name AND passage_id = :passage_id AND seen_at IS NULL;

-- name: threads_of_project  threads in which agents of a project take part, latest first
SELECT d.native_id AS id, t.topic, t.status, t.last_seq, t.message_count, t.last_post_at, d.id AS document_id,
       d.created_at, d.modified_at, d.data
FROM threads t JOIN documents d ON d.id = t.document_id
WHERE t.status NOT IN ('archived', 'closed') AND t.document_id IN (
    SELECT m.document_id FROM agents a JOIN read_marks m ON m.reader = a.id WHERE a.project = :project
)
ORDER BY t.last_post_at DESC LIMIT :limit;
