-- name: full_text_tables  virtual tables of FTS5
SELECT name FROM sqlite_schema WHERE sql LIKE 'CREATE VIRTUAL TABLE%USING fts5 %';

-- name: table_names  the ordinary tables
SELECT name FROM pragma_table_list WHERE type = 'table' AND schema = 'main' AND name NOT LIKE 'sqlite\_%' ESCAPE '\'
ORDER BY name;

-- name: all_tables  every table, also the virtual ones and those that hold their data
SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY rowid;

-- name: lost_documents  documents that passages belong to and that do not exist
SELECT document_id, min(id), min(created_at) FROM passages
WHERE document_id NOT IN (SELECT id FROM documents) GROUP BY document_id;

-- name: insert_recovered_document  in place of a lost one
INSERT INTO documents (id, source, native_id, title, created_at, modified_at)
VALUES (:id, :source, :native_id, :title, :at, :at);

-- name: insert_recovered_threads  threads for documents of the bus without one
INSERT INTO threads (document_id, topic, status)
SELECT id, coalesce(title, 'Recovered') || ' (recovered ' || id || ')', 'discuss'
FROM documents WHERE source = 'bus' AND id NOT IN (SELECT document_id FROM threads);

-- name: recover_thread_counts  from the messages that are left
UPDATE threads SET
    last_seq = max(last_seq, (SELECT coalesce(max(position), 0) FROM passages p WHERE p.document_id = threads.document_id)),
    message_count = (SELECT count(*) FROM passages p WHERE p.document_id = threads.document_id AND position > 0);

-- name: recover_event_counter  from the events that are left
INSERT INTO counters (name, value) SELECT 'events', coalesce(max(id), 0) FROM events WHERE true
ON CONFLICT DO UPDATE SET value = max(value, excluded.value);

-- name: recover_number_counters  from the items that are left
UPDATE counters SET value = max(value, (
    SELECT coalesce(max(CAST(native_id AS INTEGER)), 0) FROM documents d WHERE d.source = counters.name
))
WHERE name IN ('media', 'characters');
