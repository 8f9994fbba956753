-- name: insert_passage  add a passage
INSERT INTO passages (document_id, position, native_id, field, role, author, author_id, text, created_at, data, checksum)
VALUES (:document_id, :position, :native_id, :field, :role, :author, :author_id, :text, :created_at, :data, :checksum)
RETURNING id;

-- name: insert_passages_by_copy
COPY passages (id, document_id, position, native_id, field, role, author, author_id, text, created_at, data, checksum)
FROM STDIN;

-- name: passage_texts  the bytes of texts and their checksums; damaged bytes may not be a text
SELECT id, convert_to(text, 'UTF8') AS raw, checksum FROM passages WHERE id > :after ORDER BY id LIMIT :limit;

-- name: take_passage_ids  reserve ids for new passages; there are no id ranges here
SELECT CAST(json_agg(nextval(ids.sequence)) AS text) AS ids
FROM (SELECT CAST(pg_get_serial_sequence('passages', 'id') AS regclass) AS sequence OFFSET 0) ids,
     generate_series(1, CAST(:count AS bigint));

-- name: take_document_ids  reserve ids for new documents
SELECT CAST(json_agg(nextval(ids.sequence)) AS text) AS ids
FROM (SELECT CAST(pg_get_serial_sequence('documents', 'id') AS regclass) AS sequence OFFSET 0) ids,
     generate_series(1, CAST(:count AS bigint));

-- name: index_passages
INSERT INTO passage_index (passage_id, length, words, tokens, stems)
SELECT CAST(value ->> 0 AS bigint), CAST(value ->> 1 AS bigint), CAST(value ->> 2 AS tsvector), value ->> 3, value ->> 4
FROM json_array_elements(CAST(:rows AS json));

-- name: index_passages_by_copy
COPY passage_index (passage_id, length, words, tokens, stems) FROM STDIN;

-- name: index_parts  parts of passages that are too long for one row
INSERT INTO passage_parts (passage_id, part, words)
SELECT CAST(value ->> 0 AS bigint), CAST(value ->> 1 AS bigint), CAST(value ->> 2 AS tsvector)
FROM json_array_elements(CAST(:rows AS json));

-- name: unindex_passages  remove rows from the search index
WITH parts AS (DELETE FROM passage_parts WHERE passage_id IN (SELECT CAST(value AS bigint) FROM json_array_elements_text(CAST(:ids AS json))))
DELETE FROM passage_index WHERE passage_id IN (SELECT CAST(value AS bigint) FROM json_array_elements_text(CAST(:ids AS json)));

-- name: add_up_totals  merge the rows of totals if there are many
WITH gone AS (
    DELETE FROM passage_totals WHERE (SELECT count(*) FROM passage_totals) > 1000 RETURNING passages, tokens
)
INSERT INTO passage_totals SELECT sum(passages), sum(tokens) FROM gone HAVING count(*) > 0;

-- name: lock_passages  keep others from changing these passages until the commit
SELECT id FROM passages WHERE id IN (SELECT CAST(value AS bigint) FROM jsonb_array_elements_text(CAST(:ids AS jsonb)))
ORDER BY id FOR UPDATE;

-- name: lock_session  two hooks that report the first events of a session take turns until the commit
SELECT 1 AS locked FROM pg_advisory_xact_lock(hashtextextended(:prefix, 0));

-- name: index_trigrams  new rows of the substring index
INSERT INTO passage_trigrams (passage_id, trigrams, created_at)
SELECT CAST(value ->> 0 AS bigint), CAST(value ->> 1 AS integer[]), CAST(value ->> 2 AS bigint)
FROM json_array_elements(CAST(:rows AS json));

-- name: index_trigrams_by_copy
COPY passage_trigrams (passage_id, trigrams, created_at) FROM STDIN;

-- name: index_trigrams_again  some rows may exist, if only the other index was recreated
INSERT INTO passage_trigrams (passage_id, trigrams, created_at)
SELECT CAST(value ->> 0 AS bigint), CAST(value ->> 1 AS integer[]), CAST(value ->> 2 AS bigint)
FROM json_array_elements(CAST(:rows AS json))
ON CONFLICT (passage_id) DO NOTHING;

-- name: unknown_runs  those of these words that are not in the table of words, in order, so that two writers cannot
-- wait for each other
SELECT given.run FROM string_to_table(:runs, ' ') AS given (run)
WHERE NOT EXISTS (SELECT 1 FROM passage_runs r WHERE r.run = given.run COLLATE "C")
ORDER BY given.run COLLATE "C";

-- name: insert_runs  another writer may have added some
INSERT INTO passage_runs (run, number, grams)
SELECT value ->> 0, CAST(value ->> 1 AS integer), CAST(value ->> 2 AS integer[])
FROM json_array_elements(CAST(:rows AS json))
ON CONFLICT (run) DO NOTHING;

-- name: runs_with  the numbers of the words with a fragment, at most :most
SELECT number FROM passage_runs WHERE grams @> CAST(:grams AS integer[]) AND run LIKE :pattern LIMIT :most;

-- name: unindex_trigrams  remove rows from the substring index
DELETE FROM passage_trigrams WHERE passage_id IN (SELECT CAST(value AS bigint) FROM json_array_elements_text(CAST(:ids AS json)));

-- name: passages_without_parts  passages that are missing in the substring index
SELECT p.id, p.text, p.created_at FROM passages p JOIN documents d ON d.id = p.document_id
LEFT JOIN passage_trigrams i ON i.passage_id = p.id
WHERE p.id > :after AND d.source = 'archive' AND i.passage_id IS NULL
ORDER BY p.id LIMIT :limit;

-- name: archive_newest  messages with a time, newest first, after a given one
SELECT p.id AS passage_id, p.native_id AS id, p.role, p.text, p.created_at, d.native_id AS conversation, d.title,
       d.data
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.created_at BETWEEN :since AND :until AND (p.created_at < :until OR p.id < :before)
  AND d.source = 'archive' AND p.position > 0
  AND (CAST(:roles AS text) IS NULL OR p.role IN (SELECT value FROM jsonb_array_elements_text(CAST(:roles AS jsonb))))
ORDER BY p.created_at DESC, p.id DESC
LIMIT :limit;

-- name: archive_newest_indexed  the same by the substring index, which has no messages of other sources
SELECT p.id AS passage_id, p.native_id AS id, p.role, p.text, p.created_at, d.native_id AS conversation, d.title,
       d.data
FROM passage_trigrams t JOIN passages p ON p.id = t.passage_id JOIN documents d ON d.id = p.document_id
WHERE t.created_at BETWEEN :since AND :until AND (t.created_at < :until OR t.passage_id < :before)
  AND p.position > 0
  AND (CAST(:roles AS text) IS NULL OR p.role IN (SELECT value FROM jsonb_array_elements_text(CAST(:roles AS jsonb))))
ORDER BY t.created_at DESC, t.passage_id DESC
LIMIT :limit;

-- name: archive_timeless  messages without a time
SELECT p.id AS passage_id, p.native_id AS id, p.role, p.text, p.created_at, d.native_id AS conversation, d.title,
       d.data
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.created_at IS NULL AND p.id < :before
  AND d.source = 'archive' AND p.position > 0
  AND (CAST(:roles AS text) IS NULL OR p.role IN (SELECT value FROM jsonb_array_elements_text(CAST(:roles AS jsonb))))
ORDER BY p.id DESC
LIMIT :limit;

-- name: texts  texts of passages
SELECT id, text FROM passages
WHERE id IN (SELECT CAST(value AS bigint) FROM jsonb_array_elements_text(CAST(:ids AS jsonb)));

-- name: index_size  the server's estimate; a small index is counted
SELECT CASE WHEN reltuples > 20000 THEN reltuples ELSE (
    SELECT count(*) FROM (SELECT 1 FROM passage_index LIMIT 100000) AS counted
) END AS size
FROM pg_class WHERE oid = CAST('passage_index' AS regclass);

-- name: common_terms  the most common terms and the shares of passages that have them, from the server's statistics
SELECT term, CAST(share AS float8)
FROM pg_stats, unnest(CAST(CAST(most_common_elems AS text) AS text[]), most_common_elem_freqs) AS common (term, share)
WHERE schemaname = current_schema() AND tablename = 'passage_index' AND attname = 'words' AND term IS NOT NULL;

-- name: index_statistics  about how many passages the index has, how often it was analysed, and the lengths of passages
SELECT CAST(greatest(reltuples, 0) AS bigint) AS passages,
       pg_stat_get_analyze_count(oid) + pg_stat_get_autoanalyze_count(oid) AS analyses, counted, tokens
FROM pg_class, (
    SELECT CAST(coalesce(sum(passages), 0) AS bigint) AS counted, CAST(coalesce(sum(tokens), 0) AS bigint) AS tokens
    FROM passage_totals
) AS totals
WHERE pg_class.oid = CAST('passage_index' AS regclass);

-- name: newest_indexed  the highest id in the index
SELECT coalesce(max(passage_id), 0) AS id FROM passage_index;

-- name: count_indexed  the number of passages of these sources, at most :cap
SELECT count(*) AS passages FROM (
    SELECT 1 FROM documents d JOIN passages p ON p.document_id = d.id
    WHERE d.source = ANY(:sources) AND d.deleted_at IS NULL LIMIT :cap
) AS found;

-- name: hits_to_count  the documents of passages whose document is one result, and the ids of recorded messages
SELECT CASE WHEN d.source = ANY(:texts) THEN p.document_id END, CASE WHEN d.source = ANY(:recorded) THEN p.native_id END
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.id IN (SELECT CAST(value AS bigint) FROM jsonb_array_elements_text(CAST(:ids AS jsonb)))
    AND (d.source = ANY(:texts) OR (d.source = ANY(:recorded) AND p.position > 0));

-- name: candidate_texts  the passages in these spans, with their texts. OFFSET 0 makes the server look up each span:
-- otherwise it may read all passages.
SELECT p.id, p.document_id, p.position, d.source, d.native_id AS document, p.native_id, p.created_at, d.modified_at,
       d.title, p.role, p.author, p.text, CASE WHEN d.source = 'bus' THEN p.data END AS data
FROM jsonb_array_elements(CAST(:spans AS jsonb)) AS span (value)
CROSS JOIN LATERAL (
    SELECT id, document_id, position, native_id, created_at, role, author, text, data FROM passages
    WHERE document_id = CAST(span.value ->> 0 AS bigint)
      AND position BETWEEN CAST(span.value ->> 1 AS bigint) AND CAST(span.value ->> 2 AS bigint)
    OFFSET 0
) AS p
JOIN documents d ON d.id = p.document_id;

-- name: passage_ids_in  the ids of the passages in these spans
SELECT p.document_id, p.position, p.id
FROM jsonb_array_elements(CAST(:spans AS jsonb)) AS span (value)
CROSS JOIN LATERAL (
    SELECT document_id, position, id FROM passages
    WHERE document_id = CAST(span.value ->> 0 AS bigint)
      AND position BETWEEN CAST(span.value ->> 1 AS bigint) AND CAST(span.value ->> 2 AS bigint)
    OFFSET 0
) AS p
ORDER BY p.document_id, p.position;

-- name: storage_bytes  the size of the database
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint AS bytes
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = current_schema() AND c.relkind = 'r';

-- name: drop_vectors  the passages are not in the index any more
DELETE FROM vectors WHERE passage_id IN (SELECT CAST(value AS bigint) FROM json_array_elements_text(CAST(:ids AS json)));

-- name: mark_vectors_stale  the passages have changed; rows with an empty model are quick to find
INSERT INTO vectors (passage_id, model, made_at, vector)
SELECT DISTINCT CAST(value AS bigint), '', 0, CAST('' AS bytea) FROM json_array_elements_text(CAST(:ids AS json))
ON CONFLICT (passage_id) DO UPDATE SET model = excluded.model, made_at = excluded.made_at, vector = excluded.vector;

-- name: begin_bulk_writes  index entries wait in a longer list, so that more of them are sorted in at once
-- The limit is one of the index, not of the connection: otherwise the next post would have to empty the list.
DO $$ BEGIN
    ALTER INDEX IF EXISTS passage_index_words SET (gin_pending_list_limit = 16384);
    ALTER INDEX IF EXISTS passage_trigrams_gin SET (gin_pending_list_limit = 16384);
    INSERT INTO counters (name, value) VALUES ('bulk writes', extract(epoch FROM now()))
    ON CONFLICT (name) DO UPDATE SET value = excluded.value;
END $$;

-- name: end_bulk_writes  restore the settings and empty the lists, because searches read them from end to end
DO $$ BEGIN
    ALTER INDEX IF EXISTS passage_index_words SET (gin_pending_list_limit = 256);
    ALTER INDEX IF EXISTS passage_trigrams_gin SET (gin_pending_list_limit = 256);
    DELETE FROM counters WHERE name = 'bulk writes';
    PERFORM gin_clean_pending_list(oid) FROM pg_class
    WHERE relnamespace = CAST(current_schema() AS regnamespace)
      AND relname IN ('passage_index_words', 'passage_trigrams_gin', 'passage_runs_grams');
END $$;

-- name: has_bulk_settings  did a process end before it restored them? No import takes six hours.
SELECT count(*) > 0 AS is_so FROM counters WHERE name = 'bulk writes' AND value < extract(epoch FROM now()) - 6 * 3600;

-- name: sort_in_memory  until the end of the transaction; the waiting entries of an index are sorted with this memory
SET LOCAL work_mem = '32MB';

-- name: wait_longer_for_locks  until the end of the transaction
SET LOCAL lock_timeout = '60s';

-- name: has_as_many_indexed  are the newest passages in the index? Counting would read all rows
WITH newest AS (SELECT id, document_id FROM passages ORDER BY id DESC LIMIT 500)
SELECT NOT EXISTS (
    SELECT 1 FROM newest p JOIN documents d ON d.id = p.document_id
    LEFT JOIN passage_index i ON i.passage_id = p.id
    WHERE i.passage_id IS NULL AND d.deleted_at IS NULL
) AS is_so;

-- name: schema_names  those of these tables and indexes that exist; by name, because the catalog has no index by schema
SELECT relname AS name FROM pg_class
WHERE relname = ANY(ARRAY(SELECT CAST(value AS name) FROM json_array_elements_text(CAST(:names AS json))))
  AND relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'i');

-- name: lexemes  the terms of these passages in the search index
WITH given AS (SELECT CAST(value AS bigint) AS passage_id FROM jsonb_array_elements_text(CAST(:ids AS jsonb)))
SELECT passage_id AS id, tsvector_to_array(words) AS lexemes FROM passage_index JOIN given USING (passage_id)
UNION ALL
SELECT passage_id, tsvector_to_array(words) FROM passage_parts JOIN given USING (passage_id);

-- name: ids_in_substring_index  those of these passages that are in the substring index
SELECT passage_id AS id FROM passage_trigrams
WHERE passage_id IN (SELECT CAST(value AS bigint) FROM jsonb_array_elements_text(CAST(:ids AS jsonb)));

-- name: audit_protection  whether the trigger is there and active that lets the audit log only grow
SELECT count(*) = 1 AS is_there FROM pg_trigger
WHERE tgrelid = CAST('audit' AS regclass) AND tgname = 'audit_is_not_changed' AND tgenabled IN ('O', 'A');

-- name: protect_audit  create this trigger again
CREATE OR REPLACE TRIGGER audit_is_not_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION audit_only_grows();
