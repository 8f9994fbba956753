-- Only PostgreSQL's substring index changed.
SELECT 1;
