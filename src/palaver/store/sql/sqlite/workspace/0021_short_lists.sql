-- Only PostgreSQL's index changed.
SELECT 1;
