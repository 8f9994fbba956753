-- name: mark  how many bytes of a transcript are indexed
SELECT bytes FROM transcript_marks WHERE agent_id = :agent_id AND file = :file;

-- name: move_mark  store how many bytes of a transcript are indexed
INSERT INTO transcript_marks (agent_id, file, bytes) VALUES (:agent_id, :file, :bytes)
ON CONFLICT (agent_id, file) DO UPDATE SET bytes = excluded.bytes;

-- name: forget_mark  a transcript was deleted
DELETE FROM transcript_marks WHERE agent_id = :agent_id AND file = :file;

-- name: marks  the marks of all transcripts
SELECT agent_id, file, bytes FROM transcript_marks;

-- name: session_document  the document of a session
SELECT id, title, created_at, modified_at, data FROM documents WHERE source = 'sessions' AND native_id = :native_id;

-- name: last_position  the position of the last passage
SELECT coalesce(max(position), 0) AS position FROM passages WHERE document_id = :document_id;

-- name: passage_by_native  the passage of a document with this id
SELECT id, position, native_id, role, text, created_at FROM passages
WHERE document_id = :document_id AND native_id = :native_id;

-- name: passages_of_document  the next passages of a document
SELECT id, position, native_id, role, text, created_at, data FROM passages
WHERE document_id = :document_id AND position > :after ORDER BY position LIMIT :limit;

-- name: whole_passages_of_document  all passages of a document with all columns
SELECT * FROM passages WHERE document_id = :document_id ORDER BY position;

-- name: outline_of_document  the beginnings of all passages of a document
SELECT position, native_id, role, substr(text, 1, 300) AS start, length(text) AS length, created_at AS ts,
       data FROM passages
WHERE document_id = :document_id AND position > 0 ORDER BY position;

-- name: outline_between  the beginnings and ends of the passages between two positions of a document
SELECT position, native_id, role, length(text) AS length, created_at AS ts, data,
       CASE WHEN length(text) <= :head + :tail THEN text
       ELSE substr(text, 1, :head) || :between || substr(text, length(text) - :tail + 1) END AS start
FROM passages WHERE document_id = :document_id AND position >= :first AND position <= :last ORDER BY position;

-- name: outline_signature  values that differ when a document has changed
SELECT d.version, d.modified_at, count(p.id) AS turns, max(p.id) AS last_id, max(p.position) AS last_position
FROM documents d LEFT JOIN passages p ON p.document_id = d.id AND p.position > 0
WHERE d.id = :document_id GROUP BY d.id, d.version, d.modified_at;

-- name: sessions_below  the sessions of an agent whose ids begin with the id of another one
SELECT native_id, title, created_at FROM documents
WHERE source = 'sessions' AND agent_id = :agent_id AND native_id LIKE :pattern ESCAPE '!' ORDER BY created_at, id
LIMIT 1000;

-- name: set_session_data  set the project of a session
UPDATE documents SET data = :data WHERE id = :id;

-- name: filed_sessions  the agent and the data of the sessions of an agent, or of all agents, the latest first
SELECT agent_id, data FROM documents
WHERE source = 'sessions' AND (CAST(:agent_id AS text) IS NULL OR agent_id = :agent_id)
ORDER BY modified_at DESC, id DESC;

-- name: refile_session  give a session to an agent
UPDATE documents SET native_id = :native_id, agent_id = :agent_id WHERE id = :id;

-- name: refile_turns  give the turns of a session to an agent
UPDATE passages SET author = :author, author_id = :author_id WHERE document_id = :document_id;

-- name: retitle_session  set the title of a session
UPDATE documents SET title = :title WHERE id = :id;

-- name: touch_document  a document has a new message
UPDATE documents SET modified_at = :modified_at WHERE id = :id AND modified_at < :modified_at;

-- name: said_in_session  the last turns of people and assistants in a session, newest first
SELECT position, role, text, created_at AS ts FROM passages
WHERE document_id = :document_id AND position > 0 AND role IN ('user', 'assistant') ORDER BY position DESC LIMIT :limit;

-- name: closed_points  when open points were closed
SELECT point, closed_at FROM closed_points;

-- name: close_point  somebody closed an open point
INSERT INTO closed_points (point, closed_at, closed_by) VALUES (:point, :closed_at, :closed_by)
ON CONFLICT (point) DO UPDATE SET closed_at = excluded.closed_at, closed_by = excluded.closed_by;

-- name: session_groups  how many sessions each agent has in each project
SELECT agent_id, project, count(*) AS sessions FROM documents WHERE source = 'sessions' GROUP BY agent_id, project;

-- name: sessions_of_groups  sessions, the latest first; a group is an agent and a project
SELECT d.id, d.native_id, d.title, d.agent_id, a.name AS agent, a.client, d.created_at, d.modified_at, d.data,
       (SELECT count(*) FROM passages p WHERE p.document_id = d.id AND p.position > 0) AS turns
FROM documents d LEFT JOIN agents a ON a.id = d.agent_id
WHERE d.source = 'sessions' AND (CAST(:groups AS text) IS NULL
       OR d.agent_id || '/' || coalesce(d.project, '') IN (SELECT value FROM json_each(:groups)))
ORDER BY d.modified_at DESC, d.id DESC LIMIT :limit OFFSET :offset;

-- name: projects  the projects of a source
SELECT DISTINCT project FROM documents WHERE source = :source;

-- name: workspace_setting  a setting that holds for every server on this workspace
SELECT value FROM workspace_settings WHERE name = :name;

-- name: set_workspace_setting  store such a setting
INSERT INTO workspace_settings (name, value) VALUES (:name, :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: session_of_agents  the first session with one of these ids
SELECT native_id FROM documents
WHERE source = 'sessions' AND native_id IN (SELECT value FROM json_each(:native_ids)) ORDER BY created_at, id LIMIT 1;

-- name: known_turns  the passages of a document with these ids
SELECT native_id, id FROM passages WHERE document_id = :document_id AND native_id IN (SELECT value FROM json_each(:ids));

-- name: replace_turns  change turns
UPDATE passages SET role = value ->> 1, text = value ->> 2, created_at = {int value ->> 3}, data = value ->> 4,
    checksum = {int value ->> 5}
FROM {rows} WHERE passages.id = {int value ->> 0};
