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
