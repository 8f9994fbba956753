-- name: saved_searches  the searches that somebody saved, by name
SELECT id, name, query, created_at FROM saved_searches WHERE owner = :owner ORDER BY lower(name), created_at, id;

-- name: saved_search  one of them
SELECT id, name, query, created_at FROM saved_searches WHERE owner = :owner AND id = :id;

-- name: insert_saved_search  save a search
INSERT INTO saved_searches (id, owner, name, query, created_at) VALUES (:id, :owner, :name, :query, :created_at);

-- name: update_saved_search  change the name or the query of a saved search
UPDATE saved_searches SET name = :name, query = :query WHERE owner = :owner AND id = :id;

-- name: delete_saved_search  remove a saved search
DELETE FROM saved_searches WHERE owner = :owner AND id = :id;

-- name: forget_saved_searches  remove all saved searches of somebody
DELETE FROM saved_searches WHERE owner = :owner;

-- name: author_names  the names of all authors in small letters, each once; reads one index entry a name
WITH RECURSIVE names (name) AS (
    SELECT (SELECT lower(p.author) FROM passages p WHERE p.author IS NOT NULL ORDER BY lower(p.author) LIMIT 1)
    UNION ALL
    SELECT (SELECT lower(p.author) FROM passages p WHERE p.author IS NOT NULL AND lower(p.author) > names.name
            ORDER BY lower(p.author) LIMIT 1)
    FROM names WHERE names.name IS NOT NULL
)
SELECT name FROM names WHERE name IS NOT NULL LIMIT :limit;

-- name: search_session  the state of a search session that was used lately
SELECT state FROM search_sessions WHERE owner = :owner AND id = :id AND used_at >= :since;

-- name: lock_search_session  begin a search session, or lock it until the end of the change
INSERT INTO search_sessions (owner, id, state, used_at) VALUES (:owner, :id, '{}', 0)
ON CONFLICT (owner, id) DO UPDATE SET state = search_sessions.state;

-- name: put_search_session  store the state of a search session
UPDATE search_sessions SET state = :state, used_at = :used_at WHERE owner = :owner AND id = :id;

-- name: forget_search_sessions  delete search sessions that were not used lately
DELETE FROM search_sessions WHERE used_at < :before;
