-- Searches look for what one author said. Names are compared without case.
CREATE INDEX passages_author ON passages (lower(author), created_at) WHERE author IS NOT NULL;

-- Searches that somebody saved. An owner is an agent (its id) or a person (human:NAME), as in read_marks.
CREATE TABLE saved_searches (
    id text PRIMARY KEY,
    owner text NOT NULL,
    name text NOT NULL,
    query text NOT NULL,
    created_at bigint NOT NULL
);
CREATE INDEX saved_searches_owner ON saved_searches (owner, created_at);
