-- name: insert_passage
INSERT INTO passages (document_id, position, native_id, field, role, author, author_id, text, created_at, data)
VALUES (:document_id, :position, :native_id, :field, :role, :author, :author_id, :text, :created_at, :data)
RETURNING id;

-- name: index_passage
INSERT INTO passage_index (passage_id, words) VALUES (:id, CAST(:words AS tsvector));

-- name: unindex_passage
DELETE FROM passage_index WHERE passage_id = :id;

-- name: find_ranked  the query is bound in a CTE, or the generic plan of a prepared statement would be slower;
-- ranked by the words alone: a scope has no place in the text, and with it every score would be 0
WITH asked AS MATERIALIZED (
    SELECT CAST(:match AS tsquery) AS q, CAST(:wanted AS tsquery) AS wanted
), matched AS MATERIALIZED (
    SELECT passage_id FROM passage_index, asked WHERE words @@ q
), newest AS MATERIALIZED (
    SELECT passage_id FROM matched ORDER BY passage_id DESC LIMIT :cap
), ranked AS (
    SELECT passage_id AS id, ts_rank_cd(CAST('{0, 0, 0.5, 1}' AS real[]), words, wanted, 1) AS score
    FROM newest JOIN passage_index USING (passage_id), asked
)
SELECT id, score FROM ranked ORDER BY score DESC, id DESC LIMIT :limit OFFSET :offset;

-- name: count_matches
SELECT count(*) AS matches FROM (
    SELECT 1 FROM passage_index WHERE words @@ CAST(:match AS tsquery) LIMIT :cap
) AS m;

-- name: found_messages  a page of hits, by their passage ids
SELECT p.id AS passage_id, p.native_id AS message_id, d.native_id AS thread_id, d.title AS thread_topic,
       p.author, p.position AS seq, p.created_at, p.text, p.data
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.id IN (SELECT CAST(value AS bigint) FROM jsonb_array_elements_text(CAST(:ids AS jsonb)));

-- name: found_turns  a page of hits, by their passage ids
SELECT p.id AS passage_id, p.native_id, d.native_id AS document, d.agent_id, p.role, p.text, p.created_at
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.id IN (SELECT CAST(value AS bigint) FROM jsonb_array_elements_text(CAST(:ids AS jsonb)));

-- name: find_ranked_between  the same, of what was said in a stretch of time
WITH asked AS MATERIALIZED (
    SELECT CAST(:match AS tsquery) AS q, CAST(:wanted AS tsquery) AS wanted
), matched AS MATERIALIZED (
    SELECT passage_id FROM passage_index, asked WHERE words @@ q
), newest AS MATERIALIZED (
    SELECT passage_id FROM matched JOIN passages p ON p.id = passage_id
    WHERE p.created_at BETWEEN CAST(:since AS bigint) AND CAST(:until AS bigint)
    ORDER BY passage_id DESC LIMIT :cap
), ranked AS (
    SELECT passage_id AS id, ts_rank_cd(CAST('{0, 0, 0.5, 1}' AS real[]), words, wanted, 1) AS score
    FROM newest JOIN passage_index USING (passage_id), asked
)
SELECT id, score FROM ranked ORDER BY score DESC, id DESC LIMIT :limit OFFSET :offset;

-- name: unindexed_passages  what the index does not have, for whatever reason
SELECT p.id, p.document_id, p.field, p.author_id, p.role, p.text, d.source
FROM passages p JOIN documents d ON d.id = p.document_id
LEFT JOIN passage_index i ON i.passage_id = p.id
WHERE i.passage_id IS NULL
LIMIT :limit;

-- name: index_trigrams
INSERT INTO passage_trigrams (passage_id, trigrams) VALUES (:id, :trigrams);

-- name: unindex_trigrams
DELETE FROM passage_trigrams WHERE passage_id = :id;

-- name: count_substring
SELECT count(*) AS hits FROM (SELECT passage_id AS id FROM passage_trigrams WHERE trigrams @> CAST(:match AS integer[]) LIMIT :cap) AS h;

-- name: archive_hits  messages that may hold the substring, and all messages of conversations whose title may
WITH hits AS MATERIALIZED (SELECT passage_id AS id FROM passage_trigrams WHERE trigrams @> CAST(:match AS integer[])
), wanted AS (
    SELECT id FROM hits
    UNION
    SELECT m.id FROM hits h JOIN passages t ON t.id = h.id AND t.position = 0
                            JOIN passages m ON m.document_id = t.document_id
)
SELECT p.id AS passage_id, p.document_id, p.native_id AS id, p.role, p.text, p.created_at,
       d.native_id AS conversation, d.title
FROM wanted w JOIN passages p ON p.id = w.id JOIN documents d ON d.id = p.document_id
WHERE d.source = 'archive' AND p.position > 0
  AND (CAST(:roles AS text) IS NULL OR p.role IN (SELECT value FROM jsonb_array_elements_text(CAST(:roles AS jsonb))))
  AND (p.created_at BETWEEN :since AND :until OR (:any_time = 1 AND p.created_at IS NULL))
ORDER BY p.created_at IS NULL, p.created_at DESC, p.id DESC
LIMIT :limit OFFSET :offset;

-- name: archive_newest  all messages, newest first
SELECT p.id AS passage_id, p.document_id, p.native_id AS id, p.role, p.text, p.created_at,
       d.native_id AS conversation, d.title
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE d.source = 'archive' AND p.position > 0
  AND (CAST(:roles AS text) IS NULL OR p.role IN (SELECT value FROM jsonb_array_elements_text(CAST(:roles AS jsonb))))
  AND (p.created_at BETWEEN :since AND :until OR (:any_time = 1 AND p.created_at IS NULL))
ORDER BY p.created_at IS NULL, p.created_at DESC, p.id DESC
LIMIT :limit OFFSET :offset;

-- name: texts
SELECT id, text FROM passages
WHERE id IN (SELECT CAST(value AS bigint) FROM jsonb_array_elements_text(CAST(:ids AS jsonb)));
