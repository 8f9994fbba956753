-- name: take_event_ids  the lock on this row puts commits in order
UPDATE counters SET value = value + :count WHERE name = 'events' RETURNING value;

-- name: last_event_id  the id of the newest event
SELECT value FROM counters WHERE name = 'events';

-- name: insert_event  store an event
INSERT INTO events (id, type, thread_id, message_id, payload)
VALUES (:id, :type, :thread_id, :message_id, :payload);

-- name: events_after  the next events
SELECT id, type, thread_id, message_id, payload FROM events WHERE id > :after ORDER BY id LIMIT :limit;

-- name: thread_events_after  the next events of a thread
SELECT id, type, thread_id, message_id, payload FROM events
WHERE id > :after AND thread_id = :thread_id ORDER BY id LIMIT :limit;

-- name: event_sizes_after  the sizes of the next events
SELECT id, octet_length(payload) AS bytes FROM events WHERE id > :after ORDER BY id LIMIT :limit;

-- name: thread_event_sizes_after  the sizes of the next events of a thread
SELECT id, octet_length(payload) AS bytes FROM events
WHERE id > :after AND thread_id = :thread_id ORDER BY id LIMIT :limit;

-- name: first_event_id  the oldest event that is left
SELECT min(id) AS id FROM events;

-- name: forget_events_before  delete old events
DELETE FROM events WHERE id < :id;

-- name: events_of_message  the events about a message
SELECT id, payload FROM events WHERE message_id = :message_id;

-- name: events_of_thread  the events about messages of a thread
SELECT id, payload FROM events WHERE thread_id = :thread_id AND message_id IS NOT NULL;

-- name: replace_event_payload  store an event without its text
UPDATE events SET payload = :payload WHERE id = :id;
