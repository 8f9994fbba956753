-- Each passage has a term for its block, which are 8,192 ids, and one for its large block of 131,072 ids. A search for a
-- common word looks in the newest blocks only. The index is filled again after the start.
TRUNCATE passage_index, passage_parts, passage_totals;
