-- name: passages_to_encode  those without a vector of this model: typed text before answers of assistants, newest first.
-- Titles and the output of tools get none.
SELECT CASE WHEN p.role = 'assistant' AND d.source <> 'bus' THEN 0 ELSE 1 END AS is_typed,
       coalesce(p.created_at, 0) AS created_at, p.id
FROM passages p JOIN documents d ON d.id = p.document_id
LEFT JOIN vectors v ON v.passage_id = p.id AND v.model = :model
WHERE p.id > :after AND p.id <= :upto AND v.passage_id IS NULL AND p.position > 0 AND coalesce(p.role, '') <> 'tool'
  AND d.deleted_at IS NULL
ORDER BY is_typed DESC, created_at DESC, p.id DESC LIMIT :limit;

-- name: drop_vector  the passage is not in the index any more
DELETE FROM vectors WHERE passage_id = :id;

-- name: stale_vectors  passages that have changed, and whether they get a vector again
SELECT p.id, p.text, p.position > 0 AND coalesce(p.role, '') <> 'tool' AND d.deleted_at IS NULL AS is_wanted
FROM vectors v JOIN passages p ON p.id = v.passage_id JOIN documents d ON d.id = p.document_id
WHERE v.model = '' LIMIT :limit;

-- name: count_vectors  the number of vectors of this model, and of passages that get one: those without the output of
-- tools, titles and deleted documents. CROSS JOIN makes SQLite begin with the deleted documents, which are few.
SELECT (SELECT count(*) FROM vectors WHERE model = :model) AS vectors,
       (SELECT count(*) FROM passages WHERE coalesce(role, '') <> 'tool')
       - (SELECT count(*) FROM documents d
          WHERE EXISTS (SELECT 1 FROM passages p WHERE p.document_id = d.id AND p.position = 0))
       - (SELECT count(*) FROM documents d CROSS JOIN passages p
          WHERE d.deleted_at IS NOT NULL AND p.document_id = d.id AND p.position > 0
            AND coalesce(p.role, '') <> 'tool') AS passages;

-- name: take_vector_lease  no row if another process has it
INSERT INTO counters (name, value) VALUES ('vector lease', :until)
ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE counters.value < :now RETURNING value;

-- name: renew_vector_lease  changes nothing if another process has taken it
UPDATE counters SET value = :until WHERE name = 'vector lease' AND value = :mine;

-- name: end_vector_lease
DELETE FROM counters WHERE name = 'vector lease' AND value = :mine;

-- name: vectors_since  the vectors that were made after a vector
SELECT passage_id, made_at, vector FROM vectors
WHERE model = :model AND (made_at, passage_id) > (:made_at, :passage_id)
ORDER BY made_at, passage_id LIMIT :limit;

-- name: vectors_after  the vectors of passages after one. "model || ''" keeps SQLite from reading all vectors of the
-- model and sorting them
SELECT passage_id, made_at, vector FROM vectors WHERE passage_id > :passage_id AND model || '' = :model
ORDER BY passage_id LIMIT :limit;

-- name: newest_vector  when the newest vector was made
SELECT coalesce(max(made_at), 0) AS made_at FROM vectors WHERE model = :model;

-- name: vectors_of  the vectors of these passages. Without the order, SQLite may read all vectors of the model.
SELECT v.passage_id, v.vector FROM ({ids}) AS wanted {in order} JOIN vectors AS v ON v.passage_id = wanted.value
WHERE v.model = :model;

-- name: texts_to_encode  the texts of those of these passages that have no vector of this model
SELECT p.id, p.text FROM passages p JOIN documents d ON d.id = p.document_id
LEFT JOIN vectors v ON v.passage_id = p.id AND v.model = :model
WHERE p.id IN ({ids}) AND v.passage_id IS NULL AND p.position > 0 AND coalesce(p.role, '') <> 'tool'
  AND d.deleted_at IS NULL;

-- name: put_vector  does nothing if the text has changed meanwhile
INSERT INTO vectors (passage_id, model, made_at, vector)
SELECT id, CAST(:model AS text), CAST(:made_at AS bigint), :vector FROM passages WHERE id = :id AND text = CAST(:text AS text)
ON CONFLICT (passage_id) DO UPDATE SET model = excluded.model, made_at = excluded.made_at, vector = excluded.vector;

-- name: highest_passage_ids  of each of these ranges of ids
SELECT (SELECT max(id) FROM passages WHERE id BETWEEN {int r.value ->> 0} AND {int r.value ->> 1}) AS id
FROM {rows} AS r;
