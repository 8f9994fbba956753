-- name: live_passages  a page of the passages of documents that are not deleted
SELECT p.id, p.document_id, p.field, p.author_id, p.role, p.text, p.data, d.source
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.id > :after AND d.deleted_at IS NULL
ORDER BY p.id LIMIT :limit;

-- name: miscounted_threads  how many threads have a wrong message count
SELECT count(*) AS threads FROM threads t
WHERE message_count <> (SELECT count(*) FROM passages p WHERE p.document_id = t.document_id AND p.position > 0);

-- name: recount_threads  correct wrong message counts
UPDATE threads SET message_count =
    (SELECT count(*) FROM passages p WHERE p.document_id = threads.document_id AND p.position > 0)
WHERE message_count <> (SELECT count(*) FROM passages p WHERE p.document_id = threads.document_id AND p.position > 0);
