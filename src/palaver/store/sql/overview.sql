-- name: messages_per_quarter_hour  messages by quarter of an hour since 1970 and by source: days begin with one everywhere
SELECT p.created_at / 900000000 AS quarter_hour, d.source, count(*) AS messages
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.created_at >= :since AND p.position > 0 AND d.source IN ('bus', 'sessions', 'archive', 'chats')
  AND d.deleted_at IS NULL AND (CAST(:groups AS text) IS NULL OR d.source <> 'sessions'
       OR d.agent_id || '/' || coalesce(d.project, '') IN (SELECT value FROM json_each(:groups)))
GROUP BY 1, 2
ORDER BY 1, 2;

-- name: messages_per_quarter_hour_and_author  messages of agents and people on the bus and in sessions, over time
SELECT p.created_at / 900000000 AS quarter_hour, coalesce(p.author_id, d.agent_id) AS agent_id,
       CASE WHEN coalesce(p.author_id, d.agent_id) IS NULL THEN p.author END AS name, count(*) AS messages
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.created_at >= :since AND p.position > 0 AND d.source IN ('bus', 'sessions') AND d.deleted_at IS NULL
  AND (CAST(:groups AS text) IS NULL OR d.source <> 'sessions'
       OR d.agent_id || '/' || coalesce(d.project, '') IN (SELECT value FROM json_each(:groups)))
GROUP BY 1, 2, 3
ORDER BY 1, 2, 3;

-- name: documents_by_source  the number of documents of each source
SELECT source, count(*) AS documents FROM documents
WHERE deleted_at IS NULL AND (CAST(:groups AS text) IS NULL OR source <> 'sessions'
       OR agent_id || '/' || coalesce(project, '') IN (SELECT value FROM json_each(:groups)))
GROUP BY source;

-- name: messages_per_quarter_hour_and_project  messages in sessions and imported conversations of projects, over time
SELECT p.created_at / 900000000 AS quarter_hour, d.project, count(*) AS messages
FROM passages p JOIN documents d ON d.id = p.document_id
WHERE p.created_at >= :since AND p.position > 0 AND d.source IN ('sessions', 'archive') AND d.deleted_at IS NULL
  AND d.project <> '' AND (CAST(:groups AS text) IS NULL OR d.source <> 'sessions'
       OR d.agent_id || '/' || coalesce(d.project, '') IN (SELECT value FROM json_each(:groups)))
GROUP BY 1, 2 ORDER BY 1, 2;
