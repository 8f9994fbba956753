-- name: take_number  the next number of a counter
UPDATE counters SET value = value + 1 WHERE name = :name RETURNING value;

-- name: item  an item of the library, even if it is deleted
SELECT id, native_id, title, agent_id, created_at, modified_at, version, deleted_at, data FROM documents
WHERE source = :source AND native_id = :native_id;

-- name: item_by_title  the item with this title that was changed last
SELECT id, native_id, title, agent_id, created_at, modified_at, version, deleted_at, data FROM documents
WHERE source = :source AND title = :title AND deleted_at IS NULL
ORDER BY modified_at DESC, id DESC LIMIT 1;

-- name: item_id_by_title  the id of the item with this title: the one deleted last, else the one changed last
SELECT native_id FROM documents WHERE source = :source AND title = :title
ORDER BY CASE WHEN deleted_at IS NULL THEN 1 ELSE 0 END, deleted_at DESC, modified_at DESC, id DESC LIMIT 1;

-- name: item_page  a page of items, the latest first
SELECT id, native_id, title, agent_id, created_at, modified_at, version, deleted_at, data FROM documents
WHERE source = :source AND deleted_at IS NULL
ORDER BY modified_at DESC, id DESC LIMIT :limit OFFSET :offset;

-- name: update_item  store the next version of an item; changes no row if the version is not current
UPDATE documents SET title = :title, modified_at = :modified_at, data = :data, version = version + 1
WHERE id = :id AND version = :version;

-- name: delete_item  move an item to the trash
UPDATE documents SET deleted_at = :at, version = version + 1 WHERE id = :id;

-- name: restore_item  take an item out of the trash
UPDATE documents SET deleted_at = NULL, version = version + 1 WHERE id = :id;

-- name: lock_item  lock an item until the commit; changes nothing
UPDATE documents SET version = version WHERE id = :id;

-- name: put_body  store a whole text of an item
INSERT INTO bodies (document_id, field, text) VALUES (:document_id, :field, :text)
ON CONFLICT (document_id, field) DO UPDATE SET text = excluded.text;

-- name: drop_body  remove a whole text of an item
DELETE FROM bodies WHERE document_id = :document_id AND field = :field;

-- name: bodies  the whole texts of an item
SELECT field, text FROM bodies WHERE document_id = :document_id;

-- name: body  one whole text of an item
SELECT text FROM bodies WHERE document_id = :document_id AND field = :field;

-- name: whole_passages  the passages of a document between two positions
SELECT id, position, native_id, field, role, author, author_id, text, created_at, data FROM passages
WHERE document_id = :document_id AND position >= :first AND position <= :last ORDER BY position;

-- name: passage_bounds  the first and last position in a document, and the number of passages
SELECT coalesce(min(position), 0) AS first, coalesce(max(position), 0) AS last, count(*) AS count FROM passages
WHERE document_id = :document_id AND position > 0;

-- name: passages_after  the next passages of a document
SELECT id, position, native_id, field, role, author, author_id, text, created_at, data FROM passages
WHERE document_id = :document_id AND position > :after ORDER BY position LIMIT :limit;

-- name: passage_page  a page of the passages of a document
SELECT id, position, native_id, field, role, author, author_id, text, created_at, data FROM passages
WHERE document_id = :document_id AND position > 0 ORDER BY position LIMIT :limit OFFSET :offset;

-- name: origin  the item that was imported from a file
SELECT o.document_id, o.fingerprint, d.native_id, d.version, d.deleted_at
FROM origins o JOIN documents d ON d.id = o.document_id WHERE o.origin = :origin AND o.source = :source;

-- name: origin_by_content  the item with this content; fingerprints begin with the digest of the content
SELECT o.document_id, d.native_id FROM origins o JOIN documents d ON d.id = o.document_id
WHERE o.source = :source AND o.fingerprint BETWEEN :first AND :last LIMIT 1;

-- name: put_origin  store the file that an item was imported from
INSERT INTO origins (origin, source, fingerprint, document_id)
VALUES (:origin, :source, :fingerprint, :document_id)
ON CONFLICT (origin) DO UPDATE SET fingerprint = excluded.fingerprint, document_id = excluded.document_id,
                                   source = excluded.source;

-- name: document_by_native  the document with this id
SELECT id FROM documents WHERE source = :source AND native_id = :native_id AND deleted_at IS NULL;

-- name: sessions_with_id  the sessions of all agents that have this id, the oldest first
SELECT id FROM documents
WHERE source = 'sessions' AND native_id IN (SELECT id || '/' || :session_id FROM agents) AND deleted_at IS NULL
ORDER BY id;

-- name: passage_of_source  the passage with this id in a source
SELECT p.id, p.document_id FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.native_id = :native_id AND d.source = :source AND d.deleted_at IS NULL AND p.position > 0
ORDER BY p.id LIMIT 1;

-- name: document_without_passage  a document; its title takes the place of the passage
SELECT 0 AS passage_id, d.id AS document_id, 0 AS position, '' AS native_id, 'title' AS field, NULL AS role, NULL AS author,
       NULL AS author_id, coalesce(d.title, '') AS text, d.created_at, '{}' AS marks, d.source,
       d.native_id AS document, d.title, d.agent_id, d.created_at AS document_created,
       d.modified_at AS document_modified, d.version, d.data AS facts
FROM documents d WHERE d.id = :document_id;

-- name: documents_with_title  the newest documents whose title begins like this one
SELECT id, source, title FROM documents
WHERE lower(substr(title, 1, 200)) = lower(substr(CAST(:title AS text), 1, 200)) AND deleted_at IS NULL
  AND (CAST(:groups AS text) IS NULL OR source <> 'sessions'
       OR agent_id || '/' || coalesce(project, '') IN (SELECT value FROM json_each(:groups)))
ORDER BY modified_at DESC, id DESC LIMIT :limit;

-- name: listed_documents  documents of a source, or the deleted ones, the latest first
SELECT d.id, d.native_id, d.title, d.agent_id, a.slug AS agent, d.created_at, d.modified_at, d.deleted_at, d.data
FROM documents d LEFT JOIN agents a ON a.id = d.agent_id
WHERE d.source = :source AND (CAST(:groups AS text) IS NULL
       OR d.agent_id || '/' || coalesce(d.project, '') IN (SELECT value FROM json_each(:groups)))
  AND ((:deleted = 0 AND d.deleted_at IS NULL) OR (:deleted = 1 AND d.deleted_at IS NOT NULL))
ORDER BY d.modified_at DESC, d.id DESC LIMIT :limit OFFSET :offset;

-- name: count_listed  the number of documents of a source, or of the deleted ones
SELECT count(*) AS documents FROM documents d
WHERE d.source = :source AND (CAST(:groups AS text) IS NULL
       OR d.agent_id || '/' || coalesce(d.project, '') IN (SELECT value FROM json_each(:groups)))
  AND ((:deleted = 0 AND d.deleted_at IS NULL) OR (:deleted = 1 AND d.deleted_at IS NOT NULL));

-- name: body_starts  the start of each whole text of an item
SELECT field, substr(text, 1, CAST(:length AS integer)) AS text FROM bodies WHERE document_id = :document_id;

-- name: documents_of_passages  the ids of the documents that have these passages
SELECT DISTINCT document_id FROM passages
WHERE id IN ({ids});

-- name: documents_among  a page of some documents, the latest first
SELECT d.id, d.native_id, d.title, d.agent_id, NULL AS agent, d.created_at, d.modified_at, d.deleted_at, d.data
FROM documents d
WHERE d.id IN ({ids})
ORDER BY d.modified_at DESC, d.id DESC LIMIT :limit OFFSET :offset;

-- name: files_of_documents  the files that documents were imported from
SELECT document_id, min(origin) AS origin FROM origins
WHERE document_id IN ({ids})
GROUP BY document_id;

-- name: media_types  the types of all media items
SELECT DISTINCT {json data media_type} AS media_type FROM documents
WHERE source = 'media' AND deleted_at IS NULL ORDER BY 1;
