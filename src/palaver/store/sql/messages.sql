-- name: message  one message
SELECT p.id AS passage_id, p.document_id, p.native_id AS id, d.native_id AS thread_id, p.position AS seq,
       p.author, p.author_id, p.role, p.text, p.created_at, p.data
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.native_id = :id AND d.source = 'bus' AND p.position > 0;

-- name: messages_after  the oldest messages after a seq
SELECT p.id AS passage_id, p.document_id, p.native_id AS id, :thread_id AS thread_id, p.position AS seq,
       p.author, p.author_id, p.role, p.text, p.created_at, p.data
FROM passages p
WHERE p.document_id = :document_id AND p.position > :after_seq AND p.position < :before_seq
ORDER BY p.position
LIMIT :limit;

-- name: newest_messages  the newest messages, newest first
SELECT p.id AS passage_id, p.document_id, p.native_id AS id, :thread_id AS thread_id, p.position AS seq,
       p.author, p.author_id, p.role, p.text, p.created_at, p.data
FROM passages p
WHERE p.document_id = :document_id AND p.position > :after_seq AND p.position < :before_seq
ORDER BY p.position DESC
LIMIT :limit;

-- name: message_by_key  the message that was posted with this idempotency key
SELECT p.id AS passage_id, p.document_id, p.native_id AS id, d.native_id AS thread_id, p.position AS seq,
       p.author, p.author_id, p.role, p.text, p.created_at, p.data
FROM post_keys k JOIN passages p ON p.id = k.passage_id JOIN documents d ON d.id = p.document_id
WHERE k.document_id = :document_id AND k.author = :author AND k.key = :key;

-- name: insert_post_key  store an idempotency key
INSERT INTO post_keys (document_id, author, key, passage_id) VALUES (:document_id, :author, :key, :passage_id);

-- name: update_passage  change the text of a passage
UPDATE passages SET text = :text, data = :data, checksum = :checksum WHERE id = :id;

-- name: set_passage_data  change the facts about a passage
UPDATE passages SET data = :data WHERE id = :id;

-- name: delete_passage  remove a passage
DELETE FROM passages WHERE id = :id;

-- name: insert_edit  store the text before an edit
INSERT INTO edits (passage_id, version, old_content, edited_by, created_at)
VALUES (:passage_id, :version, :old_content, :edited_by, :created_at);

-- name: edits  the edits of a message
SELECT version, old_content, edited_by, created_at FROM edits WHERE passage_id = :passage_id ORDER BY version;

-- name: authors_of_thread  who posted in a thread; people have no id
SELECT DISTINCT author, author_id FROM passages WHERE document_id = :document_id AND position > 0;

-- name: insert_reaction  adding the same reaction twice has no effect
INSERT INTO reactions (id, passage_id, agent_id, agent_name, reaction, created_at, number)
VALUES (:id, :passage_id, :agent_id, :agent_name, :reaction, :created_at,
        (SELECT coalesce(max(number), 0) + 1 FROM reactions WHERE passage_id = :passage_id))
ON CONFLICT DO NOTHING;

-- name: reaction  one reaction
SELECT id, agent_id, agent_name, reaction, created_at FROM reactions
WHERE passage_id = :passage_id AND coalesce(agent_id, '') = coalesce(CAST(:agent_id AS text), '')
  AND reaction = :reaction;

-- name: delete_reaction  remove a reaction
DELETE FROM reactions
WHERE passage_id = :passage_id AND coalesce(agent_id, '') = coalesce(CAST(:agent_id AS text), '')
  AND reaction = :reaction;

-- name: reactions_between  the reactions to a page of messages
SELECT r.passage_id, r.id, r.agent_id, r.agent_name, r.reaction, r.created_at
FROM passages p JOIN reactions r ON r.passage_id = p.id
WHERE p.document_id = :document_id AND p.position BETWEEN :first AND :last
ORDER BY r.passage_id, r.number;

-- name: forget_post_times  delete old times, and those in the future (the clock was set back)
DELETE FROM post_times WHERE at < :before OR at > :after;

-- name: post_times  the number of recent posts of an author
SELECT count(*) AS posts, min(at) AS first FROM post_times WHERE author = :author;

-- name: insert_post_time  record the time of a post
INSERT INTO post_times (author, at) VALUES (:author, :at);

-- name: human_only_mark  exists once all human-only messages have their scope token
SELECT value FROM counters WHERE name = 'human_only';

-- name: set_human_only_mark  all human-only messages have their scope token
INSERT INTO counters (name, value) VALUES ('human_only', 1) ON CONFLICT (name) DO NOTHING;

-- name: count_messages  in all threads
SELECT count(*) AS messages FROM passages p JOIN documents d ON d.id = p.document_id
WHERE d.source = 'bus' AND p.position > 0;
