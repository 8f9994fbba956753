-- Only PostgreSQL's index of long passages changes.
SELECT 1;
