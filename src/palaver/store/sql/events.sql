-- name: take_event_ids  the row lock of the counter is what puts commits in line
UPDATE counters SET value = value + :count WHERE name = 'events' RETURNING value;

-- name: last_event_id
SELECT value FROM counters WHERE name = 'events';

-- name: insert_event
INSERT INTO events (id, type, thread_id, message_id, payload)
VALUES (:id, :type, :thread_id, :message_id, :payload);

-- name: events_after
SELECT id, type, thread_id, message_id, payload FROM events WHERE id > :after ORDER BY id LIMIT :limit;

-- name: thread_events_after
SELECT id, type, thread_id, message_id, payload FROM events
WHERE id > :after AND thread_id = :thread_id ORDER BY id LIMIT :limit;

-- name: event_sizes_after  the same without their payloads
SELECT id, octet_length(payload) AS bytes FROM events WHERE id > :after ORDER BY id LIMIT :limit;

-- name: thread_event_sizes_after
SELECT id, octet_length(payload) AS bytes FROM events
WHERE id > :after AND thread_id = :thread_id ORDER BY id LIMIT :limit;

-- name: first_event_id
SELECT min(id) AS id FROM events;

-- name: forget_events_before
DELETE FROM events WHERE id < :id;

-- name: events_of_message
SELECT id, payload FROM events WHERE message_id = :message_id;

-- name: events_of_thread
SELECT id, payload FROM events WHERE thread_id = :thread_id AND message_id IS NOT NULL;

-- name: replace_event_payload
UPDATE events SET payload = :payload WHERE id = :id;
