-- name: vectors_missing  passages without a vector of this model
SELECT p.id, p.text FROM passages p JOIN documents d ON d.id = p.document_id
LEFT JOIN vectors v ON v.passage_id = p.id AND v.model = :model
WHERE p.id > :after AND v.passage_id IS NULL AND d.deleted_at IS NULL
ORDER BY p.id LIMIT :limit;

-- name: drop_vector  the passage has changed
DELETE FROM vectors WHERE passage_id = :id;

-- name: count_vectors  the number of passages, and of vectors of this model
SELECT (SELECT count(*) FROM passages) AS passages,
       (SELECT count(*) FROM vectors WHERE model = :model) AS vectors;

-- name: vectors_since  the vectors that were made at a time or later
SELECT passage_id, made_at, vector FROM vectors WHERE model = :model AND made_at >= :made_at
ORDER BY made_at, passage_id LIMIT :limit;

-- name: vectors_after  the vectors of passages after one
SELECT passage_id, made_at, vector FROM vectors WHERE passage_id > :passage_id AND model = :model
ORDER BY passage_id LIMIT :limit;

-- name: newest_vector  when the newest vector was made
SELECT coalesce(max(made_at), 0) AS made_at FROM vectors WHERE model = :model;

-- name: count_vectors_up_to  the number of vectors, at most :most
SELECT count(*) AS vectors FROM (SELECT 1 FROM vectors WHERE model = :model LIMIT :most) AS known;
