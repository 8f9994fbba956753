-- Substrings of one and two characters too. What was imported before is taken into it little by little, from this id on.
TRUNCATE passage_trigrams;
INSERT INTO counters (name, value) SELECT 'parts', 0 WHERE EXISTS (SELECT 1 FROM documents WHERE source = 'archive');

-- With the role in it, messages of other roles are passed over without being read.
DROP INDEX passages_time;
CREATE INDEX passages_time ON passages (created_at, role);
