-- name: latest_threads  threads by their latest message, each with its last messages: one row for each message, or one without
SELECT page.document_id, page.id, page.topic, page.status, page.last_seq, page.message_count, page.last_post_at,
       page.created_at, page.modified_at, page.data,
       p.position AS seq, p.author, p.role, substr(p.text, 1, :length) AS text, p.created_at AS said_at,
       p.data AS said_data, m.seq AS read_seq
FROM (
    SELECT d.id AS document_id, d.native_id AS id, t.topic, t.status, t.last_seq, t.message_count, t.last_post_at,
           d.created_at, d.modified_at, d.data,
           CASE WHEN t.last_post_at > d.created_at THEN t.last_post_at ELSE d.created_at END AS latest
    FROM documents d JOIN threads t ON t.document_id = d.id
    WHERE d.source = 'bus' AND (:include_archived = 1 OR t.status <> 'archived')
    ORDER BY latest DESC, d.id DESC
    LIMIT :limit OFFSET :offset
) page
LEFT JOIN passages p
    ON p.document_id = page.document_id AND p.position > page.last_seq - :each AND p.position > 0
LEFT JOIN read_marks m ON m.document_id = page.document_id AND m.reader = :reader
ORDER BY page.latest DESC, page.document_id DESC, p.position;
