-- name: insert_passage  each source's bodies and titles have a range of ids of their own, so a search walks only its range
INSERT INTO passages (id, document_id, position, native_id, field, role, author, author_id, text, created_at, data)
VALUES (
    (SELECT coalesce(max(id), :first) + 1 FROM passages WHERE id BETWEEN :first AND :last),
    :document_id, :position, :native_id, :field, :role, :author, :author_id, :text, :created_at, :data
)
RETURNING id;

-- name: insert_passages  many at once, under ids that were taken before
INSERT INTO passages (id, document_id, position, native_id, field, role, author, author_id, text, created_at, data)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
       value ->> 8, value ->> 9, value ->> 10
FROM json_each(CAST(:rows AS TEXT));

-- name: take_passage_ids  for that many to come
WITH RECURSIVE taken (id, n) AS (
    SELECT coalesce(max(id), :first) + 1, 1 FROM passages WHERE id BETWEEN :first AND :last
    UNION ALL
    SELECT id + 1, n + 1 FROM taken WHERE n < :count
)
SELECT json_group_array(id) AS ids FROM taken;

-- name: take_document_ids
WITH RECURSIVE taken (id, n) AS (
    SELECT coalesce(max(id), 0) + 1, 1 FROM documents
    UNION ALL
    SELECT id + 1, n + 1 FROM taken WHERE n < :count
)
SELECT json_group_array(id) AS ids FROM taken;

-- name: insert_conversations
INSERT INTO documents (id, source, native_id, title, created_at, modified_at, data)
SELECT value ->> 0, 'archive', value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5 FROM json_each(CAST(:rows AS TEXT));

-- name: known_conversations
SELECT id, native_id, modified_at, data FROM documents
WHERE source = 'archive' AND native_id IN (SELECT value FROM json_each(:ids));

-- name: index_passages
INSERT INTO passage_index (rowid, scope, exact, stem)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(CAST(:rows AS TEXT));

-- name: unindex_passage
DELETE FROM passage_index WHERE rowid = :id;

-- name: rank_matches  rank the :newest matches by bm25 and return the best of them
SELECT id, score FROM (
    SELECT rowid AS id, bm25(passage_index, 0.0, 1.0, 1.0) AS score
    FROM passage_index
    WHERE passage_index MATCH :match AND rowid BETWEEN :first AND :last
      AND (:ranges IS NULL OR rowid / :width IN (SELECT value FROM json_each(:ranges)))
      AND (NOT :is_timed OR EXISTS (
          SELECT 1 FROM passages p WHERE p.id = passage_index.rowid AND p.created_at BETWEEN :since AND :until
      ))
    ORDER BY rowid DESC
    LIMIT :newest
)
ORDER BY score, id DESC
LIMIT :limit;

-- name: count_words  the :newest matches, with the number of times that each word occurs in them
SELECT rowid AS id, occurrences(passage_index) AS counts FROM passage_index
WHERE passage_index MATCH :match AND rowid BETWEEN :first AND :last
  AND (:ranges IS NULL OR rowid / :width IN (SELECT value FROM json_each(:ranges)))
  AND (NOT :is_timed OR EXISTS (
      SELECT 1 FROM passages p WHERE p.id = passage_index.rowid AND p.created_at BETWEEN :since AND :until
  ))
ORDER BY rowid DESC
LIMIT :newest;

-- name: newest_matches  the ids of the newest matches, at most :cap
SELECT json_group_array(id) AS ids FROM (
    SELECT rowid AS id FROM passage_index
    WHERE passage_index MATCH :match AND rowid BETWEEN :first AND :last
      AND (:ranges IS NULL OR rowid / :width IN (SELECT value FROM json_each(:ranges)))
      AND (NOT :is_timed OR EXISTS (
          SELECT 1 FROM passages p WHERE p.id = passage_index.rowid AND p.created_at BETWEEN :since AND :until
      ))
    ORDER BY rowid DESC
    LIMIT :cap
);

-- name: count_matches  the number of matches, at most :cap
SELECT count(*) AS passages FROM (
    SELECT 1 FROM passage_index
    WHERE passage_index MATCH :match AND rowid BETWEEN :first AND :last
      AND (:ranges IS NULL OR rowid / :width IN (SELECT value FROM json_each(:ranges)))
      AND (NOT :is_timed OR EXISTS (
          SELECT 1 FROM passages p WHERE p.id = passage_index.rowid AND p.created_at BETWEEN :since AND :until
      ))
    LIMIT :cap
);

-- name: found_messages  a page of hits, by their passage ids
SELECT p.id AS passage_id, p.native_id AS message_id, d.native_id AS thread_id, d.title AS thread_topic,
       p.author, p.position AS seq, p.created_at, p.text, p.data
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.id IN (SELECT value FROM json_each(:ids));

-- name: found_turns  a page of hits, by their passage ids
SELECT p.id AS passage_id, p.native_id, d.native_id AS document, d.agent_id, p.role, p.text, p.created_at, d.data
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.id IN (SELECT value FROM json_each(:ids));

-- name: unindexed_passages  what the index does not have, for whatever reason
SELECT p.id, p.document_id, p.field, p.author_id, p.role, p.text, p.data, d.source
FROM passages p JOIN documents d ON d.id = p.document_id
LEFT JOIN passage_index_docsize i ON i.id = p.id
WHERE i.id IS NULL AND d.deleted_at IS NULL
LIMIT :limit;

-- name: has_as_many_indexed
SELECT (SELECT count(*) FROM passages) = (SELECT count(*) FROM passage_index_docsize) AS is_so;

-- name: index_trigrams
INSERT INTO passage_trigrams (rowid, text) SELECT value ->> 0, value ->> 1 FROM json_each(CAST(:rows AS TEXT));

-- name: unindex_trigrams
DELETE FROM passage_trigrams WHERE rowid = :id;

-- name: trigram_hits  passages that hold all of these threes, titles among them
SELECT rowid AS id FROM passage_trigrams WHERE passage_trigrams MATCH :match LIMIT :cap;

-- name: word_hits  passages that have these words in a row
SELECT rowid AS id FROM passage_index WHERE passage_index MATCH :match AND rowid BETWEEN :first AND :last LIMIT :cap;

-- name: short_hits  passages with threes that begin so, each as often as there are such threes in it
SELECT doc AS id FROM passage_threes WHERE term >= :part AND term <= :beyond LIMIT :cap;

-- name: passages_without_parts
SELECT p.id, p.text FROM passages p LEFT JOIN passage_trigrams_docsize i ON i.id = p.id
WHERE p.id > :after AND p.id BETWEEN :first AND :last AND i.id IS NULL
ORDER BY p.id LIMIT :limit;

-- name: archive_among  the messages these passages are, or are the title of, newest first
WITH hits AS (SELECT value AS id FROM json_each(:ids)
), wanted AS (
    SELECT id FROM hits
    UNION
    SELECT m.id FROM hits h JOIN passages t ON t.id = h.id AND t.position = 0
                            JOIN passages m ON m.document_id = t.document_id
)
SELECT p.id FROM wanted w JOIN passages p ON p.id = w.id
WHERE p.position > 0
  AND (CAST(:roles AS text) IS NULL OR p.role IN (SELECT value FROM json_each(:roles)))
  AND (p.created_at BETWEEN :since AND :until OR (:any_time = 1 AND p.created_at IS NULL))
ORDER BY p.created_at IS NULL, p.created_at DESC, p.id DESC;

-- name: archive_messages
SELECT p.id AS passage_id, p.native_id AS id, p.role, p.text, p.created_at, d.native_id AS conversation, d.title,
       d.data
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.id IN (SELECT value AS id FROM json_each(:ids));

-- name: archive_newest  messages that have a time, newest first, a page from a given one on
SELECT p.id AS passage_id, p.native_id AS id, p.role, p.text, p.created_at, d.native_id AS conversation, d.title,
       d.data
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.created_at BETWEEN :since AND :until AND (p.created_at < :until OR p.id < :before)
  AND +p.id BETWEEN :first AND :last
  AND (CAST(:roles AS text) IS NULL OR p.role IN (SELECT value FROM json_each(:roles)))
ORDER BY p.created_at DESC, p.id DESC
LIMIT :limit;

-- name: archive_timeless  messages that have none
SELECT p.id AS passage_id, p.native_id AS id, p.role, p.text, p.created_at, d.native_id AS conversation, d.title,
       d.data
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.created_at IS NULL AND p.id < :before
  AND +p.id BETWEEN :first AND :last
  AND (CAST(:roles AS text) IS NULL OR p.role IN (SELECT value FROM json_each(:roles)))
ORDER BY p.id DESC
LIMIT :limit;

-- name: sessions_of_agent
SELECT d.id, d.native_id, d.title, d.agent_id, a.name AS agent, d.created_at, d.modified_at, d.data,
       (SELECT count(*) FROM passages p WHERE p.document_id = d.id AND p.position > 0) AS turns
FROM documents d LEFT JOIN agents a ON a.id = d.agent_id
WHERE d.source = 'sessions' AND (CAST(:agent_id AS text) IS NULL OR d.agent_id = :agent_id)
  AND (CAST(:projects AS text) IS NULL OR json_extract(d.data, '$.project') IN (SELECT value FROM json_each(:projects)))
ORDER BY d.modified_at DESC, d.id DESC
LIMIT :limit OFFSET :offset;

-- name: conversations
SELECT d.id, d.native_id, d.title, d.created_at, d.modified_at, d.data,
       (SELECT count(*) FROM passages p WHERE p.document_id = d.id AND p.position > 0) AS messages
FROM documents d
WHERE d.source = 'archive' AND (CAST(:projects AS text) IS NULL OR json_extract(d.data, '$.project') IN (SELECT value FROM json_each(:projects)))
ORDER BY d.modified_at DESC, d.id DESC LIMIT :limit OFFSET :offset;

-- name: projects  that a source knows
SELECT DISTINCT json_extract(d.data, '$.project') AS project FROM documents d WHERE d.source = :source;

-- name: media_types
SELECT DISTINCT json_extract(data, '$.media_type') AS media_type FROM documents
WHERE source = 'media' AND deleted_at IS NULL ORDER BY 1;

-- name: index_averages
SELECT block FROM passage_index_data WHERE id = 1;

-- name: frequencies
SELECT term, doc FROM passage_terms WHERE term IN (SELECT value FROM json_each(:tokens));

-- name: count_indexed  passages of a range, at most :cap
SELECT count(*) AS passages FROM (SELECT 1 FROM passage_index_docsize WHERE id BETWEEN :first AND :last LIMIT :cap);

-- name: maybe_human_only  messages of the bus that may be for people only
SELECT p.id, p.document_id, p.field, p.author_id, p.role, p.text, p.data FROM passages p
WHERE p.id BETWEEN :first AND :last AND p.data LIKE '%human%';

-- name: candidates  the fields of found passages that ranking needs
SELECT p.id, p.document_id, p.position, d.source, d.native_id AS document, p.native_id, p.created_at, d.modified_at
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.id IN (SELECT value FROM json_each(:ids));

-- name: count_by_text_document  documents that are one result each, and how many of these passages each has
SELECT p.document_id, count(*) AS passages
FROM json_each(:ids) AS given
CROSS JOIN passages p ON p.id = given.value
WHERE given.value >= :first
GROUP BY p.document_id;

-- name: recorded_message_ids  the ids of messages that may be stored twice
SELECT p.native_id
FROM json_each(:ids) AS given
CROSS JOIN passages p ON p.id = given.value
WHERE given.value BETWEEN :first AND :last AND p.position > 0;

-- name: candidate_texts  the passages in these spans, with their texts
SELECT p.id, p.document_id, p.position, d.source, d.native_id AS document, p.native_id, p.created_at, d.modified_at,
       d.title, p.role, p.author, p.text, CASE WHEN d.source = 'bus' THEN p.data END AS data
FROM json_each(:spans) AS span
CROSS JOIN passages p ON p.document_id = json_extract(span.value, '$[0]')
    AND p.position BETWEEN json_extract(span.value, '$[1]') AND json_extract(span.value, '$[2]')
CROSS JOIN documents d ON d.id = p.document_id;

-- name: passage_ids_in  the ids of the passages in these spans
SELECT p.document_id, p.position, p.id
FROM json_each(:spans) AS span
CROSS JOIN passages p ON p.document_id = json_extract(span.value, '$[0]')
    AND p.position BETWEEN json_extract(span.value, '$[1]') AND json_extract(span.value, '$[2]')
ORDER BY p.document_id, p.position;

-- name: title_texts  the texts of those passages that are titles
SELECT p.id, p.text FROM passages p WHERE p.position = 0 AND p.id IN (SELECT value FROM json_each(:ids));

-- name: passages_with_documents  passages, each with its document
SELECT p.id, p.document_id, p.position, p.native_id, p.field, p.role, p.author, p.author_id, p.text, p.created_at,
       p.data, d.source, d.native_id AS document, d.title, d.agent_id, d.created_at AS document_created,
       d.modified_at AS document_modified, d.version, d.data AS facts
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.id IN (SELECT value FROM json_each(:ids));

-- name: first_passages  the first passage of each document
SELECT p.document_id, p.text, p.data, p.author, p.field FROM passages p
WHERE p.position > 0 AND p.id IN (
    SELECT (SELECT q.id FROM passages q WHERE q.document_id = v.value AND q.position > 0 ORDER BY q.position LIMIT 1)
    FROM json_each(:ids) v
);

-- name: storage_bytes
SELECT page_count * page_size AS bytes FROM pragma_page_count(), pragma_page_size();

-- name: vectors_of
SELECT passage_id, vector FROM vectors WHERE model = :model AND passage_id IN (SELECT value FROM json_each(:ids));

-- name: put_vector  unless the passage has changed meanwhile
INSERT INTO vectors (passage_id, model, vector)
SELECT id, CAST(:model AS text), :vector FROM passages WHERE id = :id AND text = CAST(:text AS text)
ON CONFLICT (passage_id) DO UPDATE SET model = excluded.model, vector = excluded.vector;

-- name: begin_bulk_writes  more pages in memory, a longer log between two copies into the file, and merging later: less is
-- written twice. So many segments never have to be merged at once, which would keep all others waiting.
INSERT INTO passage_index (passage_index, rank) VALUES ('automerge', 64), ('crisismerge', 512);
INSERT INTO passage_trigrams (passage_trigrams, rank) VALUES ('automerge', 64), ('crisismerge', 512);
PRAGMA cache_size = -24000;
PRAGMA wal_autocheckpoint = 8000;

-- name: end_bulk_writes  as it was before; what is left to be merged is merged little by little
INSERT INTO passage_index (passage_index, rank) VALUES ('automerge', 8);
INSERT INTO passage_trigrams (passage_trigrams, rank) VALUES ('automerge', 16);
PRAGMA cache_size = -8000;
PRAGMA shrink_memory;
PRAGMA wal_autocheckpoint = 1000;

-- name: schema_names  tables and indexes that are there
SELECT name FROM sqlite_schema;

-- name: all_terms  every word of the search index, and how often it occurs
SELECT term, cnt FROM passage_terms;

-- name: ids_with_parts  of these passages those whose parts can be looked up
SELECT id FROM passage_trigrams_docsize WHERE id IN (SELECT value FROM json_each(:ids));
