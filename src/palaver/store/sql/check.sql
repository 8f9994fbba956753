-- name: live_passages  a page of the passages of documents that are not deleted
SELECT p.id, p.document_id, p.field, p.author_id, p.role, p.text, p.created_at, p.data, d.source
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.id > :after AND d.deleted_at IS NULL
ORDER BY p.id LIMIT :limit;

-- name: add_checksum  give a passage of an earlier version its checksum
UPDATE passages SET checksum = :checksum WHERE id = :id AND checksum IS NULL;

-- name: passage_with_source  a passage without its text, which may be damaged
SELECT p.id, p.document_id, p.native_id, p.field, p.author_id, p.role, p.created_at, p.data, d.source,
       d.native_id AS document
FROM passages p JOIN documents d ON d.id = p.document_id WHERE p.id = :id;

-- name: miscounted_threads  how many threads have a wrong message count
SELECT count(*) AS threads FROM threads t
WHERE message_count <> (SELECT count(*) FROM passages p WHERE p.document_id = t.document_id AND p.position > 0);

-- name: recount_threads  correct wrong message counts
UPDATE threads SET message_count =
    (SELECT count(*) FROM passages p WHERE p.document_id = threads.document_id AND p.position > 0)
WHERE message_count <> (SELECT count(*) FROM passages p WHERE p.document_id = threads.document_id AND p.position > 0);

-- name: thread_counts  the counters of some threads beside the messages that they have
SELECT t.document_id, t.message_count, t.last_seq, count(p.id) AS messages, coalesce(max(p.position), 0) AS highest
FROM (SELECT document_id, message_count, last_seq FROM threads WHERE document_id > :after
      ORDER BY document_id LIMIT :limit) AS t
LEFT JOIN passages p ON p.document_id = t.document_id AND p.position > 0
GROUP BY t.document_id, t.message_count, t.last_seq
ORDER BY t.document_id;
