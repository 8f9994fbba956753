-- Only PostgreSQL's search index changed.
SELECT 1;
