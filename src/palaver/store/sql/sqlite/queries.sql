-- name: insert_passage  each source has an id range for bodies and one for titles, so that a search reads only its range
INSERT INTO passages
    (id, document_id, position, native_id, field, role, author, author_id, text, created_at, data, checksum)
VALUES (
    (SELECT coalesce(max(id), :first) + 1 FROM passages WHERE id BETWEEN :first AND :last),
    :document_id, :position, :native_id, :field, :role, :author, :author_id, :text, :created_at, :data,
    :checksum
)
RETURNING id;

-- name: insert_passages  many passages, with ids that were taken before
INSERT INTO passages
    (id, document_id, position, native_id, field, role, author, author_id, text, created_at, data, checksum)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
       value ->> 8, value ->> 9, value ->> 10, value ->> 11
FROM json_each(CAST(:rows AS TEXT));

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

-- name: insert_conversations  documents of imported conversations
INSERT INTO documents (id, source, native_id, title, created_at, modified_at, data)
SELECT value ->> 0, 'archive', value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5 FROM json_each(CAST(:rows AS TEXT));

-- name: insert_branches  texts of imported conversations that were not shown last
INSERT INTO bodies (document_id, field, text)
SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(CAST(:rows AS TEXT));

-- name: known_conversations  the stored states of these conversations
SELECT id, native_id, modified_at, data FROM documents
WHERE source = 'archive' AND native_id IN (SELECT value FROM json_each(:ids));

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

-- name: matches_among  those of some passages that match
SELECT rowid FROM passage_index
WHERE passage_index MATCH :match AND rowid IN (SELECT value FROM json_each(:ids));

-- name: indexed_between  the passages among the newest :cap of a period that are in the index and in some id ranges
WITH newest AS MATERIALIZED (
    SELECT id, created_at FROM passages WHERE created_at BETWEEN :since AND :until
    ORDER BY created_at DESC, id DESC LIMIT :cap
)
SELECT newest.id FROM newest
WHERE newest.id BETWEEN :first AND :last
  AND (:ranges IS NULL OR newest.id / :width IN (SELECT value FROM json_each(:ranges)))
  AND EXISTS (SELECT 1 FROM passage_index_docsize i WHERE i.id = newest.id)
ORDER BY newest.created_at DESC, newest.id DESC;

-- name: timed_among  those of some passages that are from a period
SELECT id FROM passages
WHERE id IN (SELECT value FROM json_each(:ids)) AND +created_at BETWEEN :since AND :until;

-- name: passages_with_facts  those of some passages with an author and content as wanted (1), as unwanted (-1) or any (0)
SELECT p.id FROM passages p
WHERE p.id IN (SELECT value FROM json_each(:ids))
  AND (CAST(:authors AS TEXT) IS NULL OR lower(p.author) IN (SELECT value FROM json_each(:authors)))
  AND coalesce(lower(p.author), '') NOT IN (SELECT value FROM json_each(:others))
  AND (:code = 0 OR (:code = 1) = (p.text LIKE '%```%'))
  AND (:link = 0 OR (:link = 1) = (p.text LIKE '%http://%' OR p.text LIKE '%https://%'))
  AND (:image = 0 OR (:image = 1) = (p.data LIKE '%"images":[{%' OR p.text LIKE '%![%](%'))
  AND (:reaction = 0 OR (:reaction = 1) = EXISTS (SELECT 1 FROM reactions r WHERE r.passage_id = p.id))
  AND (:table = 0 OR (:table = 1) = (
      p.text LIKE '%|---%' OR p.text LIKE '%| ---%' OR p.text LIKE '%|:--%' OR p.text LIKE '%| :--%'));

-- name: newest_passages  the newest passages of some sources and a period
SELECT p.id FROM passages p CROSS JOIN documents d ON d.id = p.document_id
WHERE p.created_at BETWEEN :since AND :until AND (:titles = 1 OR p.position > 0)
  AND d.source IN (SELECT value FROM json_each(:sources)) AND d.deleted_at IS NULL
ORDER BY p.created_at DESC, p.id DESC LIMIT :cap;

-- name: passages_of_sources  any passages of some sources
SELECT p.id FROM documents d CROSS JOIN passages p ON p.document_id = d.id
WHERE d.source IN (SELECT value FROM json_each(:sources)) AND d.deleted_at IS NULL LIMIT :cap;

-- name: newest_by_authors  the newest passages of some authors
SELECT p.id FROM passages p CROSS JOIN documents d ON d.id = p.document_id
WHERE lower(p.author) IN (SELECT value FROM json_each(:authors))
  AND p.created_at BETWEEN :since AND :until AND (:titles = 1 OR p.position > 0)
  AND d.source IN (SELECT value FROM json_each(:sources)) AND d.deleted_at IS NULL
ORDER BY p.created_at DESC, p.id DESC LIMIT :cap;

-- name: count_matches  the number of matches in an id range, at most :cap
SELECT count(*) AS passages FROM (
    SELECT 1 FROM passage_index
    WHERE passage_index MATCH :match AND rowid BETWEEN :first AND :last
      AND (NOT :is_timed OR EXISTS (
          SELECT 1 FROM passages p WHERE p.id = passage_index.rowid AND p.created_at BETWEEN :since AND :until
      ))
    LIMIT :cap
);

-- name: found_messages  a page of found messages
SELECT p.id AS passage_id, p.native_id AS message_id, d.native_id AS thread_id, d.title AS thread_topic,
       p.author, p.position AS seq, p.created_at, p.text, p.data
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.id IN (SELECT value FROM json_each(:ids));

-- name: found_turns  a page of found turns
SELECT p.id AS passage_id, p.native_id, d.native_id AS document, d.agent_id, p.role, p.text, p.created_at, d.data
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.id IN (SELECT value FROM json_each(:ids));

-- name: unindexed_passages  passages that are missing in the search index
SELECT p.id, p.document_id, p.field, p.author_id, p.role, p.text, p.created_at, p.data, d.source
FROM passages p JOIN documents d ON d.id = p.document_id
LEFT JOIN passage_index_docsize i ON i.id = p.id
WHERE i.id IS NULL AND d.deleted_at IS NULL
LIMIT :limit;

-- name: lock_passages  there is one writer, so nobody else changes these passages
SELECT value AS id FROM json_each(:ids);

-- name: unindexed_among  those of these passages that are missing in the search index
SELECT p.id, p.document_id, p.field, p.author_id, p.role, p.text, p.created_at, p.data, d.source
FROM json_each(:ids) CROSS JOIN passages p ON p.id = value JOIN documents d ON d.id = p.document_id
WHERE d.deleted_at IS NULL AND NOT EXISTS (SELECT 1 FROM passage_index_docsize i WHERE i.id = p.id);

-- name: words_not_in_index  passages without a word that they should have; `pairs` are ids and words
SELECT DISTINCT value ->> 0 AS id FROM json_each(:pairs)
WHERE NOT EXISTS (
    SELECT 1 FROM passage_index WHERE passage_index MATCH 'exact : "' || (value ->> 1) || '"' AND rowid = value ->> 0
);

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

-- name: archive_among  the messages of these passages, newest first; a title means all messages of its conversation
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

-- name: archive_messages  imported messages by id
SELECT p.id AS passage_id, p.native_id AS id, p.role, p.text, p.created_at, d.native_id AS conversation, d.title,
       d.data
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.id IN (SELECT value AS id FROM json_each(:ids));

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

-- name: session_of_agents  the first session with one of these ids
SELECT native_id FROM documents
WHERE source = 'sessions' AND native_id IN (SELECT value FROM json_each(:native_ids)) ORDER BY created_at, id LIMIT 1;

-- name: conversations_below  the conversations of subagents that a conversation started
SELECT native_id, title, created_at FROM documents
WHERE source = 'archive' AND json_extract(data, '$.parent') = :parent ORDER BY created_at, id LIMIT 1000;

-- name: documents_of_passages  the ids of the documents that have these passages
SELECT DISTINCT document_id FROM passages WHERE id IN (SELECT value FROM json_each(:ids));

-- name: documents_among  a page of some documents, the latest first
SELECT d.id, d.native_id, d.title, d.agent_id, NULL AS agent, d.created_at, d.modified_at, d.deleted_at, d.data
FROM documents d
WHERE d.id IN (SELECT value FROM json_each(:ids))
ORDER BY d.modified_at DESC, d.id DESC LIMIT :limit OFFSET :offset;

-- name: files_of_documents  the files that documents were imported from
SELECT document_id, min(origin) AS origin FROM origins
WHERE document_id IN (SELECT value FROM json_each(:ids)) GROUP BY document_id;

-- name: media_types  the types of all media items
SELECT DISTINCT json_extract(data, '$.media_type') AS media_type FROM documents
WHERE source = 'media' AND deleted_at IS NULL ORDER BY 1;

-- name: index_averages  the totals that FTS5 stores for bm25
SELECT block FROM passage_index_data WHERE id = 1;

-- name: frequencies  the number of passages with each term
SELECT term, doc FROM passage_terms WHERE term IN (SELECT value FROM json_each(:tokens));

-- name: count_indexed  the number of passages in an id range, at most :cap
SELECT count(*) AS passages FROM (SELECT 1 FROM passage_index_docsize WHERE id BETWEEN :first AND :last LIMIT :cap);

-- name: maybe_human_only  bus messages that may be human-only
SELECT p.id, p.document_id, p.field, p.author_id, p.role, p.text, p.created_at, p.data FROM passages p
WHERE p.id BETWEEN :first AND :last AND p.data LIKE '%human%';

-- name: candidates  the fields of found passages that ranking needs
SELECT p.id, p.document_id, p.position, d.source, d.native_id AS document, p.native_id, p.created_at, d.modified_at
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.id IN (SELECT value FROM json_each(:ids));

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

-- name: storage_bytes  the size of the database
SELECT page_count * page_size AS bytes FROM pragma_page_count(), pragma_page_size();

-- name: vectors_of  the vectors of these passages. CROSS JOIN makes SQLite begin with the ids: otherwise it may read all
-- vectors of the model.
SELECT v.passage_id, v.vector FROM json_each(:ids) AS wanted CROSS JOIN vectors AS v ON v.passage_id = wanted.value
WHERE v.model = :model;

-- name: facts_of_passages  what decides in which scopes passages are
SELECT p.id, d.source, p.document_id, p.field, p.author_id, p.role, p.created_at, p.data
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.id IN (SELECT value FROM json_each(:ids)) AND d.deleted_at IS NULL;

-- name: highest_passage_ids  of each of these ranges of ids
SELECT (SELECT max(id) FROM passages WHERE id BETWEEN r.value ->> 0 AND r.value ->> 1) AS id FROM json_each(:ranges) r;

-- name: texts_to_encode  the texts of those of these passages that have no vector of this model
SELECT p.id, p.text FROM passages p JOIN documents d ON d.id = p.document_id
LEFT JOIN vectors v ON v.passage_id = p.id AND v.model = :model
WHERE p.id IN (SELECT value FROM json_each(:ids)) AND v.passage_id IS NULL AND d.deleted_at IS NULL;

-- name: mark_vector_stale  the passage has changed; rows with an empty model are quick to find
INSERT INTO vectors (passage_id, model, made_at, vector) VALUES (:id, '', 0, x'')
ON CONFLICT (passage_id) DO UPDATE SET model = excluded.model, made_at = excluded.made_at, vector = excluded.vector;

-- name: put_vector  does nothing if the text has changed meanwhile
INSERT INTO vectors (passage_id, model, made_at, vector)
SELECT id, CAST(:model AS text), CAST(:made_at AS integer), :vector FROM passages WHERE id = :id AND text = CAST(:text AS text)
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

-- name: known_turns  the passages of a document with these ids
SELECT native_id, id FROM passages WHERE document_id = :document_id AND native_id IN (SELECT value FROM json_each(:ids));

-- name: replace_turns  change turns
UPDATE passages SET role = value ->> 1, text = value ->> 2, created_at = value ->> 3, data = value ->> 4,
    checksum = value ->> 5
FROM json_each(CAST(:rows AS TEXT)) WHERE passages.id = value ->> 0;

-- name: audit_protection  whether the triggers are there that let the audit log only grow
SELECT count(*) = 2 AS is_there FROM sqlite_schema
WHERE type = 'trigger' AND tbl_name = 'audit' AND name IN ('audit_is_not_changed', 'audit_is_not_deleted')
  AND sql LIKE '%RAISE(ABORT%';

-- name: protect_audit  create these triggers again
DROP TRIGGER IF EXISTS audit_is_not_changed;
DROP TRIGGER IF EXISTS audit_is_not_deleted;
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit log only grows'); END;
CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit log only grows'); END;
