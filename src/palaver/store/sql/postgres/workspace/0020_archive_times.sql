-- The times of imported messages are in the substring index. So the newest ones are read without those of other sources
-- between them. The substring index is filled again after the start.
ALTER TABLE passage_trigrams ADD COLUMN IF NOT EXISTS created_at bigint;
TRUNCATE passage_trigrams;
DROP INDEX IF EXISTS passage_trigrams_time;
CREATE INDEX passage_trigrams_time ON passage_trigrams (created_at, passage_id);
INSERT INTO counters (name, value) SELECT 'parts', 0 WHERE EXISTS (SELECT 1 FROM documents WHERE source = 'archive')
ON CONFLICT (name) DO UPDATE SET value = 0;
