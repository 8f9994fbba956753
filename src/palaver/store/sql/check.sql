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

-- name: miscounted_threads  how many threads have fewer or more messages than were counted, or a seq never given out
SELECT count(*) AS threads FROM (
    SELECT t.document_id FROM threads t
    LEFT JOIN passages p ON p.document_id = t.document_id AND p.position > 0
    GROUP BY t.document_id, t.message_count, t.last_seq
    HAVING count(p.id) <> t.message_count OR coalesce(max(p.position), 0) > t.last_seq
) AS wrong;

-- name: recount_threads  correct wrong message counts
UPDATE threads SET message_count =
    (SELECT count(*) FROM passages p WHERE p.document_id = threads.document_id AND p.position > 0)
WHERE message_count <> (SELECT count(*) FROM passages p WHERE p.document_id = threads.document_id AND p.position > 0);
