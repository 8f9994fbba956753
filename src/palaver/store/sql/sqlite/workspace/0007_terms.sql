-- How many passages have each word: read from the index, nothing is stored.
CREATE VIRTUAL TABLE passage_terms USING fts5vocab (passage_index, row);
