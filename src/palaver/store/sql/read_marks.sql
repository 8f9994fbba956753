-- name: advance_read_mark  a reader has read a thread up to a seq; a mark never moves back. The thread may be gone
INSERT INTO read_marks (reader, document_id, seq) SELECT :reader, id, :seq FROM documents WHERE id = :document_id
ON CONFLICT (reader, document_id) DO UPDATE SET seq = excluded.seq WHERE read_marks.seq < excluded.seq;

-- name: advance_read_mark_of_thread  the same, for the id of a thread
INSERT INTO read_marks (reader, document_id, seq)
SELECT :reader, d.id, :seq FROM documents d WHERE d.source = 'bus' AND d.native_id = :thread_id
ON CONFLICT (reader, document_id) DO UPDATE SET seq = excluded.seq WHERE read_marks.seq < excluded.seq;

-- name: join_thread  a reader takes part in a thread from a seq on, unless it did before. Messages that are meant for it
-- and that it was not shown stay unread
INSERT INTO read_marks (reader, document_id, seq)
SELECT CAST(:reader AS text), CAST(:document_id AS bigint), coalesce(min(n.seq) - 1, :seq) FROM mentions n
WHERE n.name = :reader AND n.document_id = :document_id AND n.seen_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM delivered_messages x JOIN deliveries v ON v.id = x.delivery_id
                  WHERE x.passage_id = n.passage_id AND v.reader = :reader AND v.shown_at IS NOT NULL)
ON CONFLICT DO NOTHING;

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

-- name: knows_reader  did somebody read a thread or ask what is new?
SELECT 1 AS found WHERE EXISTS (SELECT 1 FROM readers WHERE reader = :reader)
   OR EXISTS (SELECT 1 FROM read_marks WHERE reader = :reader);

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

-- name: insert_mention  a message is meant for this name
INSERT INTO mentions (name, passage_id, document_id, seq) VALUES (:name, :passage_id, :document_id, :seq)
ON CONFLICT DO NOTHING;

-- name: delete_mentions  before the mentions of an edited message are stored again
DELETE FROM mentions WHERE passage_id = :passage_id AND seen_at IS NULL;

-- name: give_mentions  messages that were meant for a name are meant for its agent, by its id
UPDATE mentions SET name = :to WHERE name = :name
  AND NOT EXISTS (SELECT 1 FROM mentions m WHERE m.name = :to AND m.passage_id = mentions.passage_id);

-- name: mentions_of  the newest messages that are meant for a name; handled: its reader was shown, read or answered them
SELECT n.passage_id, n.document_id, n.seq, d.native_id AS thread_id, t.topic, m.seq AS read_seq,
       p.native_id AS id, p.author, p.author_id, p.role, p.text, p.created_at, p.data,
       CASE WHEN n.seen_at IS NOT NULL OR n.seq <= coalesce(m.seq, 0)
              OR EXISTS (SELECT 1 FROM reactions r WHERE r.passage_id = n.passage_id AND r.agent_id = :reader)
              OR EXISTS (SELECT 1 FROM passages q WHERE q.document_id = n.document_id AND q.position > n.seq
                           AND (q.data LIKE '%"reply_to_msg_id":"' || p.native_id || '"%' AND q.author_id = :agent_id
                                OR q.author_id IS NULL AND q.author = :person))
            THEN 1 ELSE 0 END AS is_handled
FROM mentions n JOIN passages p ON p.id = n.passage_id
JOIN documents d ON d.id = n.document_id JOIN threads t ON t.document_id = n.document_id
LEFT JOIN read_marks m ON m.document_id = n.document_id AND m.reader = :reader
WHERE n.name = :name AND t.status <> 'archived' AND p.created_at >= :since
ORDER BY n.passage_id DESC LIMIT :limit;

-- name: unseen_mentions_of  the oldest messages that are meant for a name, and that its reader has not handled. Without
-- those that a hook has shown, or another session is just being shown
SELECT n.passage_id, n.document_id, n.seq, d.native_id AS thread_id, t.topic, m.seq AS read_seq,
       p.native_id AS id, p.author, p.author_id, p.role, p.text, p.created_at, p.data, 0 AS is_handled
FROM mentions n JOIN passages p ON p.id = n.passage_id
JOIN documents d ON d.id = n.document_id JOIN threads t ON t.document_id = n.document_id
LEFT JOIN read_marks m ON m.document_id = n.document_id AND m.reader = :reader
WHERE n.name = :name AND n.seen_at IS NULL AND n.passage_id > :after AND t.status <> 'archived'
  AND n.seq > coalesce(m.seq, 0)
  AND NOT EXISTS (SELECT 1 FROM reactions r WHERE r.passage_id = n.passage_id AND r.agent_id = :reader)
  AND NOT EXISTS (SELECT 1 FROM passages q WHERE q.document_id = n.document_id AND q.position > n.seq
                    AND (q.data LIKE '%"reply_to_msg_id":"' || p.native_id || '"%' AND q.author_id = :agent_id
                         OR q.author_id IS NULL AND q.author = :person))
  AND NOT EXISTS (SELECT 1 FROM delivered_messages x JOIN deliveries v ON v.id = x.delivery_id
                  WHERE x.passage_id = n.passage_id AND v.reader = :reader AND x.is_over = 0
                    AND (v.shown_at IS NOT NULL OR (v.session <> :session AND v.offered_at > :recent)))
ORDER BY n.passage_id LIMIT :limit;

-- name: count_unseen_mentions  how many messages after a passage are meant for a name and not handled, and the last of them
SELECT count(*) AS messages, max(n.passage_id) AS last FROM mentions n
LEFT JOIN read_marks m ON m.document_id = n.document_id AND m.reader = :reader
WHERE n.name = :name AND n.seen_at IS NULL AND n.passage_id > :after AND n.seq > coalesce(m.seq, 0);

-- name: seqs_meant_for  the messages of a thread that are meant for a name
SELECT seq FROM mentions WHERE name = :name AND document_id = :document_id AND seq > :after_seq;

-- name: mention_seen  a message was shown to its receiver; returns no row if it was shown before
UPDATE mentions SET seen_at = :at WHERE name = :name AND passage_id = :passage_id AND seen_at IS NULL;

-- name: mentions_unseen  messages after a seq of a thread count as not shown to a name
UPDATE mentions SET seen_at = NULL WHERE name = :name AND document_id = :document_id AND seq > :seq;

-- name: insert_delivery  a text is given to the hook of a client session
INSERT INTO deliveries (id, session, reader, is_briefing, way, turn, offered_at, shown_at)
VALUES (:id, :session, :reader, :is_briefing, :way, :turn, :at, :shown_at);

-- name: insert_delivered_message  a message is in a delivery. The message may be gone
INSERT INTO delivered_messages (passage_id, delivery_id) SELECT id, :delivery_id FROM passages WHERE id = :passage_id;

-- name: confirm_delivery  the hook has written the text
UPDATE deliveries SET shown_at = :at WHERE id = :id AND session = :session AND shown_at IS NULL;

-- name: deliveries_of_session  the texts that were offered to a session, the latest first
SELECT id, is_briefing, is_past, way, offered_at, shown_at FROM deliveries WHERE session = :session AND reader = :reader
ORDER BY offered_at DESC, id DESC;

-- name: shown_messages  the messages in the context of a session that its agent has not handled so far
SELECT DISTINCT x.passage_id FROM delivered_messages x JOIN deliveries v ON v.id = x.delivery_id
WHERE v.session = :session AND v.reader = :reader AND v.shown_at IS NOT NULL AND x.is_over = 0;

-- name: spawned_messages  the messages with which a program was started that runs
SELECT DISTINCT x.passage_id FROM delivered_messages x JOIN deliveries v ON v.id = x.delivery_id
WHERE v.reader = :reader AND v.way = 'spawn' AND v.shown_at IS NOT NULL AND x.is_over = 0;

-- name: fail_delivery  the text was not read after all; returns its last message
UPDATE deliveries SET shown_at = NULL WHERE id = :id AND session = :session
RETURNING (SELECT max(x.passage_id) FROM delivered_messages x WHERE x.delivery_id = id) AS last;

-- name: forget_delivered_messages  the messages of the texts that a session was shown are handled, or not in its context
UPDATE delivered_messages SET is_over = 1 WHERE is_over = 0 AND delivery_id IN (
    SELECT id FROM deliveries WHERE session = :session AND reader = :reader AND shown_at IS NOT NULL
);

-- name: end_context  the texts that a session was shown are no longer in its context
UPDATE deliveries SET is_past = :is_past WHERE session = :session AND reader = :reader AND shown_at IS NOT NULL;

-- name: delete_deliveries  forget the texts that a session was offered and not shown
DELETE FROM deliveries WHERE session = :session AND reader = :reader AND shown_at IS NULL;

-- name: detach_deliveries  the texts that a session was shown count for receipts only
UPDATE deliveries SET session = '' WHERE session = :session AND reader = :reader;

-- name: delivered_now  the messages in a text that is being confirmed
SELECT p.native_id AS message_id, d.native_id AS thread_id, v.reader AS agent_id, a.name, a.display_name, v.way, v.turn
FROM deliveries v JOIN delivered_messages x ON x.delivery_id = v.id JOIN passages p ON p.id = x.passage_id
JOIN documents d ON d.id = p.document_id JOIN agents a ON a.id = v.reader
WHERE v.id = :id AND v.session = :session AND v.shown_at IS NULL;

-- name: receipts  how far a message got to each of its receivers: in a text, read in its thread, with a reaction
SELECT n.name, n.seen_at, m.seq AS read_seq, v.way, v.turn, v.offered_at, v.shown_at, r.reaction,
       r.created_at AS reacted_at
FROM mentions n
LEFT JOIN read_marks m ON m.document_id = n.document_id AND m.reader = n.name
LEFT JOIN deliveries v ON v.id = (
    SELECT w.id FROM delivered_messages x JOIN deliveries w ON w.id = x.delivery_id
    WHERE x.passage_id = n.passage_id AND w.reader = n.name
    ORDER BY coalesce(w.shown_at, 9000000000000000000), w.offered_at DESC LIMIT 1)
LEFT JOIN reactions r ON r.id = (
    SELECT s.id FROM reactions s WHERE s.passage_id = n.passage_id AND s.agent_id = n.name
    ORDER BY s.number DESC LIMIT 1)
WHERE n.passage_id = :passage_id ORDER BY n.name;

-- name: posts_of_receivers  what the receivers of a message posted after it
SELECT q.native_id AS id, q.author_id, q.created_at, q.data FROM passages q
WHERE q.document_id = :document_id AND q.position > :seq
  AND q.author_id IN (SELECT n.name FROM mentions n WHERE n.passage_id = :passage_id)
ORDER BY q.position LIMIT :limit;

-- name: read_now  messages to an agent in a thread that it reads up to a seq
SELECT p.native_id AS message_id, a.id AS agent_id, a.name, a.display_name
FROM mentions n JOIN passages p ON p.id = n.passage_id JOIN documents d ON d.id = n.document_id
JOIN agents a ON a.id = n.name LEFT JOIN read_marks m ON m.document_id = n.document_id AND m.reader = n.name
WHERE n.name = :reader AND d.source = 'bus' AND d.native_id = :thread_id AND n.seen_at IS NULL
  AND n.seq <= :seq AND n.seq > coalesce(m.seq, 0)
ORDER BY n.seq LIMIT :limit;

-- name: turns_of_pair  turns that messages of two agents to each other in a thread began or prolonged, the latest first
SELECT v.offered_at, max(p.position) AS seq
FROM passages p JOIN delivered_messages x ON x.passage_id = p.id JOIN deliveries v ON v.id = x.delivery_id
WHERE p.document_id = :document_id AND p.position > :after AND v.way IN ('wake', 'stop', 'spawn')
  AND ((p.author_id = :author AND v.reader = :reader) OR (p.author_id = :reader AND v.reader = :author))
GROUP BY v.id, v.offered_at ORDER BY v.offered_at DESC;

-- name: last_post_of_person  the seq of the last message of a person before another one
SELECT max(position) AS seq FROM passages
WHERE document_id = :document_id AND position > :after AND position > 0 AND position < :before
  AND author_id IS NULL AND role <> 'system' AND data NOT LIKE '%"webhook"%';

-- name: insert_return  a message comes back at this time if nobody has read it
INSERT INTO returns (passage_id, due_at) VALUES (:passage_id, :due_at);

-- name: due_returns  messages whose time is over
SELECT p.native_id AS id FROM returns r JOIN passages p ON p.id = r.passage_id WHERE r.due_at <= :now;

-- name: take_return  the time of a message is over; returns no row if another server has noticed it
DELETE FROM returns WHERE passage_id = :passage_id;

-- name: delete_old_deliveries  forget the texts of sessions that were long ago
DELETE FROM deliveries WHERE offered_at < :before;

-- name: documents_of_project  the threads in which agents of a project take part, whatever their status
SELECT DISTINCT m.document_id FROM agents a JOIN read_marks m ON m.reader = a.id WHERE a.project = :project;

-- name: threads_of_project  threads in which agents of a project take part, latest first
SELECT d.native_id AS id, t.topic, t.status, t.last_seq, t.message_count, t.last_post_at, d.id AS document_id,
       d.created_at, d.modified_at, d.data
FROM threads t JOIN documents d ON d.id = t.document_id
WHERE t.status NOT IN ('archived', 'closed') AND t.document_id IN (
    SELECT m.document_id FROM agents a JOIN read_marks m ON m.reader = a.id WHERE a.project = :project
)
ORDER BY t.last_post_at DESC LIMIT :limit;
