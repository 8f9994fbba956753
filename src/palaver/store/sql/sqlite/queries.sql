-- name: insert_passage  each source has an id range for bodies and one for titles, so that a search reads only its range
INSERT INTO passages
    (id, document_id, position, native_id, field, role, author, author_id, text, created_at, data, checksum)
VALUES (
    (SELECT coalesce(max(id), :first) + 1 FROM passages WHERE id BETWEEN :first AND :last),
    :document_id, :position, :native_id, :field, :role, :author, :author_id, :text, :created_at, :data,
    :checksum
)
RETURNING id;

-- name: passage_texts  the bytes of texts and their checksums; damaged bytes may not be a text
SELECT id, CAST(text AS BLOB) AS raw, checksum FROM passages WHERE id > :after ORDER BY id LIMIT :limit;

-- name: take_passage_ids  reserve ids for new passages
WITH RECURSIVE taken (id, n) AS (
    SELECT coalesce(max(id), :first) + 1, 1 FROM passages WHERE id BETWEEN :first AND :last
    UNION ALL
    SELECT id + 1, n + 1 FROM taken WHERE n < :count
)
SELECT json_group_array(id) AS ids FROM taken;

-- name: take_document_ids  reserve ids for new documents
WITH RECURSIVE taken (id, n) AS (
    SELECT coalesce(max(id), 0) + 1, 1 FROM documents
    UNION ALL
    SELECT id + 1, n + 1 FROM taken WHERE n < :count
)
SELECT json_group_array(id) AS ids FROM taken;

-- name: index_passages  add rows to the search index
INSERT INTO passage_index (rowid, scope, exact, stem)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(CAST(:rows AS TEXT));

-- name: unindex_passage  remove a row from the search index
DELETE FROM passage_index WHERE rowid = :id;

-- name: rank_matches  rank the :newest matches by bm25 and return the best of them, each with the number of these matches
SELECT id, score, count(*) OVER () AS matches FROM (
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

-- name: newest_matches  the ids of the newest matches in an id range, at most :cap
SELECT json_group_array(id) AS ids FROM (
    SELECT rowid AS id FROM passage_index
    WHERE passage_index MATCH :match AND rowid BETWEEN :first AND :last
      AND (NOT :is_timed OR EXISTS (
          SELECT 1 FROM passages p WHERE p.id = passage_index.rowid AND p.created_at BETWEEN :since AND :until
      ))
    ORDER BY rowid DESC
    LIMIT :cap
);

-- name: count_matches  the number of matches in an id range, at most :cap
SELECT count(*) AS passages FROM (
    SELECT 1 FROM passage_index
    WHERE passage_index MATCH :match AND rowid BETWEEN :first AND :last
      AND (NOT :is_timed OR EXISTS (
          SELECT 1 FROM passages p WHERE p.id = passage_index.rowid AND p.created_at BETWEEN :since AND :until
      ))
    LIMIT :cap
);

-- name: lock_passages  there is one writer, so nobody else changes these passages
SELECT value AS id FROM json_each(:ids);

-- name: lock_session  there is one writer, so the hooks of a session take turns
SELECT :prefix AS locked;

-- name: has_as_many_indexed  does the index have as many rows as there are passages?
SELECT (SELECT count(*) FROM passages) = (SELECT count(*) FROM passage_index_docsize) AS is_so;

-- name: index_trigrams  add rows to the substring index
INSERT INTO passage_trigrams (rowid, text) SELECT value ->> 0, value ->> 1 FROM json_each(CAST(:rows AS TEXT));

-- name: unindex_trigrams  remove a row from the substring index
DELETE FROM passage_trigrams WHERE rowid = :id;

-- name: trigram_hits  passages and titles with all of these trigrams
SELECT rowid AS id FROM passage_trigrams WHERE passage_trigrams MATCH :match LIMIT :cap;

-- name: word_hits  passages with these words side by side
SELECT rowid AS id FROM passage_index WHERE passage_index MATCH :match AND rowid BETWEEN :first AND :last LIMIT :cap;

-- name: short_hits  passages with trigrams of this prefix; a passage may occur several times
SELECT doc AS id FROM passage_threes WHERE term >= :part AND term <= :beyond LIMIT :cap;

-- name: passages_without_parts  passages that are missing in the substring index
SELECT p.id, p.text, p.created_at FROM passages p LEFT JOIN passage_trigrams_docsize i ON i.id = p.id
WHERE p.id > :after AND p.id BETWEEN :first AND :last AND i.id IS NULL
ORDER BY p.id LIMIT :limit;

-- name: archive_newest  messages with a time, newest first, after a given one
SELECT p.id AS passage_id, p.native_id AS id, p.role, p.text, p.created_at, d.native_id AS conversation, d.title,
       d.data
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.created_at BETWEEN :since AND :until AND (p.created_at < :until OR p.id < :before)
  AND +p.id BETWEEN :first AND :last
  AND (CAST(:roles AS text) IS NULL OR p.role IN (SELECT value FROM json_each(:roles)))
ORDER BY p.created_at DESC, p.id DESC
LIMIT :limit;

-- name: archive_timeless  messages without a time
SELECT p.id AS passage_id, p.native_id AS id, p.role, p.text, p.created_at, d.native_id AS conversation, d.title,
       d.data
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.created_at IS NULL AND p.id < :before
  AND +p.id BETWEEN :first AND :last
  AND (CAST(:roles AS text) IS NULL OR p.role IN (SELECT value FROM json_each(:roles)))
ORDER BY p.id DESC
LIMIT :limit;

-- name: index_averages  the totals that FTS5 stores for bm25
SELECT block FROM passage_index_data WHERE id = 1;

-- name: frequencies  the number of passages with each term
SELECT term, doc FROM passage_terms WHERE term IN (SELECT value FROM json_each(:tokens));

-- name: count_indexed  the number of passages in an id range, at most :cap
SELECT count(*) AS passages FROM (SELECT 1 FROM passage_index_docsize WHERE id BETWEEN :first AND :last LIMIT :cap);

-- name: hits_to_count  the documents of passages whose document is one result, and the ids of recorded messages
SELECT CASE WHEN given.value >= :first_text THEN p.document_id END,
       CASE WHEN given.value <= :last_recorded THEN p.native_id END
FROM json_each(:ids) AS given
CROSS JOIN passages p ON p.id = given.value
WHERE given.value >= :first_text OR (given.value BETWEEN :first_recorded AND :last_recorded AND p.position > 0);

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

-- name: storage_bytes  the size of the database
SELECT page_count * page_size AS bytes FROM pragma_page_count(), pragma_page_size();

-- name: mark_vector_stale  the passage has changed; rows with an empty model are quick to find
INSERT INTO vectors (passage_id, model, made_at, vector) VALUES (:id, '', 0, x'')
ON CONFLICT (passage_id) DO UPDATE SET model = excluded.model, made_at = excluded.made_at, vector = excluded.vector;

-- name: begin_bulk_writes  a larger cache and later merges, so that less is written twice
-- With these limits the index never merges all segments at once, which would block all callers.
INSERT INTO passage_index (passage_index, rank) VALUES ('automerge', 64), ('crisismerge', 512);
INSERT INTO passage_trigrams (passage_trigrams, rank) VALUES ('automerge', 64), ('crisismerge', 512);
PRAGMA cache_size = -24000;

-- name: end_bulk_writes  restore the settings; segments are merged little by little
INSERT INTO passage_index (passage_index, rank) VALUES ('automerge', 8);
INSERT INTO passage_trigrams (passage_trigrams, rank) VALUES ('automerge', 16);
PRAGMA cache_size = -8000;
PRAGMA shrink_memory;

-- name: has_bulk_settings  did a process end before it restored them?
SELECT v FROM passage_index_config WHERE k = 'automerge' AND v = 64;

-- name: schema_names  existing tables and indexes
SELECT name FROM sqlite_schema;

-- name: all_terms  all terms of the search index, with their number of occurrences
SELECT term, cnt FROM passage_terms;

-- name: ids_in_substring_index  those of these passages that are in the substring index
SELECT id FROM passage_trigrams_docsize WHERE id IN (SELECT value FROM json_each(:ids));

-- name: audit_protection  whether the triggers are there that let the audit log only grow
SELECT count(*) = 2 AS is_there FROM sqlite_schema
WHERE type = 'trigger' AND tbl_name = 'audit' AND name IN ('audit_is_not_changed', 'audit_is_not_deleted')
  AND sql LIKE '%RAISE(ABORT%';

-- name: protect_audit  create these triggers again
DROP TRIGGER IF EXISTS audit_is_not_changed;
DROP TRIGGER IF EXISTS audit_is_not_deleted;
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit log only grows'); END;
CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit log only grows'); END;
