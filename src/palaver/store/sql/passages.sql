-- name: insert_passages  many passages, with ids that were taken before
INSERT INTO passages
    (id, document_id, position, native_id, field, role, author, author_id, text, created_at, data, checksum)
SELECT {int value ->> 0}, {int value ->> 1}, {int value ->> 2}, value ->> 3, value ->> 4,
       value ->> 5, value ->> 6, value ->> 7, value ->> 8, {int value ->> 9}, value ->> 10,
       {int value ->> 11}
FROM {rows};

-- name: passages_with_facts  those of some passages with an author and content as wanted (1), as unwanted (-1) or any (0)
SELECT p.id FROM passages p
WHERE p.id IN ({ids})
  AND (CAST(:authors AS text) IS NULL
       OR lower(p.author) IN (SELECT value FROM json_each(:authors)))
  AND coalesce(lower(p.author), '') NOT IN (SELECT value FROM json_each(:others))
  AND (CAST(:code AS int) = 0 OR (CAST(:code AS int) = 1) = (p.text LIKE '%```%'))
  AND (CAST(:link AS int) = 0
       OR (CAST(:link AS int) = 1) = (lower(p.text) LIKE '%http://%' OR lower(p.text) LIKE '%https://%'))
  AND (CAST(:image AS int) = 0
       OR (CAST(:image AS int) = 1) = (p.data LIKE '%"images":[{%' OR p.text LIKE '%![%](%'))
  AND (CAST(:reaction AS int) = 0
       OR (CAST(:reaction AS int) = 1) = EXISTS (SELECT 1 FROM reactions r WHERE r.passage_id = p.id))
  AND (CAST(:table AS int) = 0 OR (CAST(:table AS int) = 1) = (
       p.text LIKE '%|---%' OR p.text LIKE '%| ---%' OR p.text LIKE '%|:--%' OR p.text LIKE '%| :--%'));

-- name: newest_between  the newest passages of a period
SELECT id FROM passages WHERE created_at BETWEEN :since AND :until ORDER BY created_at DESC, id DESC LIMIT :cap;

-- name: newest_passages  the newest passages of some sources and a period
SELECT p.id FROM passages p {in order} JOIN documents d ON d.id = p.document_id
WHERE p.created_at BETWEEN :since AND :until AND (CAST(:titles AS int) = 1 OR p.position > 0)
  AND d.source IN (SELECT value FROM json_each(:sources)) AND d.deleted_at IS NULL
ORDER BY p.created_at DESC, p.id DESC LIMIT :cap;

-- name: passages_of_sources  any passages of some sources
SELECT p.id FROM documents d {in order} JOIN passages p ON p.document_id = d.id
WHERE d.source IN (SELECT value FROM json_each(:sources)) AND d.deleted_at IS NULL LIMIT :cap;

-- name: newest_by_authors  the newest passages of some authors
SELECT p.id FROM passages p {in order} JOIN documents d ON d.id = p.document_id
WHERE lower(p.author) IN (SELECT value FROM json_each(:authors))
  AND p.created_at BETWEEN :since AND :until AND (CAST(:titles AS int) = 1 OR p.position > 0)
  AND d.source IN (SELECT value FROM json_each(:sources)) AND d.deleted_at IS NULL
ORDER BY p.created_at DESC, p.id DESC LIMIT :cap;

-- name: timed_among  those of some passages that are from a period; + keeps SQLite from reading the whole period
SELECT id FROM passages WHERE id IN ({ids}) AND +created_at BETWEEN :since AND :until;

-- name: found_messages  a page of found messages
SELECT p.id AS passage_id, p.native_id AS message_id, d.native_id AS thread_id, d.title AS thread_topic,
       p.author, p.position AS seq, p.created_at, p.text, p.data
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.id IN ({ids});

-- name: found_turns  a page of found turns
SELECT p.id AS passage_id, p.native_id, d.native_id AS document, d.agent_id, p.role, p.text, p.created_at, d.data
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.id IN ({ids});

-- name: unindexed_passages  passages that are missing in the search index
SELECT p.id, p.document_id, p.field, p.author_id, p.role, p.text, p.created_at, p.data, d.source
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE NOT {indexed p.id} AND d.deleted_at IS NULL
LIMIT :limit;

-- name: unindexed_among  those of these passages that are missing in the search index
SELECT p.id, p.document_id, p.field, p.author_id, p.role, p.text, p.created_at, p.data, d.source
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.id IN ({ids}) AND NOT {indexed p.id} AND d.deleted_at IS NULL;

-- name: maybe_human_only  bus messages that may be human-only
SELECT p.id, p.document_id, p.field, p.author_id, p.role, p.text, p.created_at, p.data
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE d.source = 'bus' AND lower(p.data) LIKE '%human%';

-- name: candidates  the fields of found passages that ranking needs
SELECT p.id, p.document_id, p.position, d.source, d.native_id AS document, p.native_id, p.created_at, d.modified_at
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.id IN ({ids});

-- name: title_texts  the texts of those passages that are titles
SELECT p.id, p.text FROM passages p WHERE p.position = 0 AND p.id IN ({ids});

-- name: passages_with_documents  passages, each with its document
SELECT p.id AS passage_id, p.document_id, p.position, p.native_id, p.field, p.role, p.author, p.author_id, p.text, p.created_at,
       p.data AS marks, d.source, d.native_id AS document, d.title, d.agent_id, d.created_at AS document_created,
       d.modified_at AS document_modified, d.version, d.data AS facts
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.id IN ({ids});

-- name: first_passages  the first passage of each document
SELECT p.document_id, p.text, p.data, p.author, p.field FROM passages p
WHERE p.id IN (
    SELECT (SELECT q.id FROM passages q WHERE q.document_id = v.value AND q.position > 0 ORDER BY q.position LIMIT 1)
    FROM ({ids}) AS v
);

-- name: facts_of_passages  what decides in which scopes passages are
SELECT p.id, d.source, p.document_id, p.field, p.author_id, p.role, p.created_at, p.data
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.id IN ({ids}) AND d.deleted_at IS NULL;
