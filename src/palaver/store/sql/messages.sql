-- name: message
SELECT p.id AS passage_id, p.document_id, p.native_id AS id, d.native_id AS thread_id, p.position AS seq,
       p.author, p.author_id, p.role, p.text, p.created_at, p.data
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.native_id = :id AND d.source = 'bus' AND p.position > 0;

-- name: messages_after
SELECT p.id AS passage_id, p.document_id, p.native_id AS id, :thread_id AS thread_id, p.position AS seq,
       p.author, p.author_id, p.role, p.text, p.created_at, p.data
FROM passages p
WHERE p.document_id = :document_id AND p.position > :after_seq AND p.position < :before_seq
ORDER BY p.position
LIMIT :limit;

-- name: newest_messages  newest first; whoever shows them turns them round
SELECT p.id AS passage_id, p.document_id, p.native_id AS id, :thread_id AS thread_id, p.position AS seq,
       p.author, p.author_id, p.role, p.text, p.created_at, p.data
FROM passages p
WHERE p.document_id = :document_id AND p.position > :after_seq AND p.position < :before_seq
ORDER BY p.position DESC
LIMIT :limit;

-- name: message_by_key
SELECT p.id AS passage_id, p.document_id, p.native_id AS id, d.native_id AS thread_id, p.position AS seq,
       p.author, p.author_id, p.role, p.text, p.created_at, p.data
FROM post_keys k JOIN passages p ON p.id = k.passage_id JOIN documents d ON d.id = p.document_id
WHERE k.document_id = :document_id AND k.author = :author AND k.key = :key;

-- name: insert_post_key
INSERT INTO post_keys (document_id, author, key, passage_id) VALUES (:document_id, :author, :key, :passage_id);

-- name: update_passage
UPDATE passages SET text = :text, data = :data WHERE id = :id;

-- name: delete_passage
DELETE FROM passages WHERE id = :id;

-- name: insert_edit
INSERT INTO edits (passage_id, version, old_content, edited_by, created_at)
VALUES (:passage_id, :version, :old_content, :edited_by, :created_at);

-- name: edits
SELECT version, old_content, edited_by, created_at FROM edits WHERE passage_id = :passage_id ORDER BY version;

-- name: authors_of_thread
SELECT DISTINCT author_id FROM passages WHERE document_id = :document_id AND position > 0 AND author_id IS NOT NULL;

-- name: insert_reaction  doing it twice is the same as doing it once
INSERT INTO reactions (id, passage_id, agent_id, agent_name, reaction, created_at, number)
VALUES (:id, :passage_id, :agent_id, :agent_name, :reaction, :created_at,
        (SELECT coalesce(max(number), 0) + 1 FROM reactions WHERE passage_id = :passage_id))
ON CONFLICT DO NOTHING;

-- name: reaction
SELECT id, agent_id, agent_name, reaction, created_at FROM reactions
WHERE passage_id = :passage_id AND coalesce(agent_id, '') = coalesce(CAST(:agent_id AS text), '')
  AND reaction = :reaction;

-- name: delete_reaction
DELETE FROM reactions
WHERE passage_id = :passage_id AND coalesce(agent_id, '') = coalesce(CAST(:agent_id AS text), '')
  AND reaction = :reaction;

-- name: reactions_between  one query for a whole page of messages
SELECT r.passage_id, r.id, r.agent_id, r.agent_name, r.reaction, r.created_at
FROM passages p JOIN reactions r ON r.passage_id = p.id
WHERE p.document_id = :document_id AND p.position BETWEEN :first AND :last
ORDER BY r.passage_id, r.number;

-- name: forget_post_times
DELETE FROM post_times WHERE at < :before OR at > :after;

-- name: post_times
SELECT count(*) AS posts, min(at) AS first FROM post_times WHERE author = :author;

-- name: insert_post_time
INSERT INTO post_times (author, at) VALUES (:author, :at);

-- name: human_only_mark  there once every human-only message has its scope in the index
SELECT value FROM counters WHERE name = 'human_only';

-- name: set_human_only_mark
INSERT INTO counters (name, value) VALUES ('human_only', 1) ON CONFLICT (name) DO NOTHING;

-- name: count_messages  in all threads
SELECT count(*) AS messages FROM passages p JOIN documents d ON d.id = p.document_id
WHERE d.source = 'bus' AND p.position > 0;
