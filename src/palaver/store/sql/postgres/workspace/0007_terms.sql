-- Words that stand in many passages are worth knowing, so that questions are not driven by them: ANALYZE keeps ten times
-- so many of the most common ones.
ALTER TABLE passage_index ALTER COLUMN words SET STATISTICS 500;
