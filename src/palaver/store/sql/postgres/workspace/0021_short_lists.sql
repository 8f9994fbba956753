-- New index entries wait in a list, and each look-up reads it from end to end: about 13 ms for the 4 MB that a list
-- may have by default. A shorter list costs posts nothing. `begin_bulk_writes` makes it longer for an import.
ALTER INDEX passage_index_words SET (gin_pending_list_limit = 256);
ALTER INDEX passage_trigrams_gin SET (gin_pending_list_limit = 256);
