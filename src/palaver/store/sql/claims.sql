-- name: insert_claim  somebody claims files
INSERT INTO claims (id, project, project_key, pattern, kind, ignores_case, holder, agent_id, owner, session, because,
                    created_at, expires_at)
VALUES (:id, :project, :project_key, :pattern, :kind, :ignores_case, :holder, :agent_id, :owner, :session, :because,
        :created_at, :expires_at);

-- name: claims  claims of one project or all that have neither ended nor expired, with what is known of their sessions
SELECT l.*, l.id AS claim_id, a.last_heartbeat, a.is_released, (
    SELECT c.id_hash FROM agent_connections c
    WHERE c.id_hash = l.session OR (substr(l.session, 1, 5) = 'hook:' AND substr(c.id_hash, 1, 38) = l.session)
    ORDER BY c.used_at DESC LIMIT 1
) AS connection
FROM claims l LEFT JOIN agents a ON a.id = l.agent_id
WHERE l.ended_at IS NULL AND l.expires_at > :now
  AND (CAST(:project_key AS text) IS NULL OR l.project_key = :project_key)
ORDER BY l.created_at, l.id;

-- name: end_claim  a claim ends before its time; returns no row if it has ended
UPDATE claims SET ended_at = :at, ended = :ended WHERE id = :id AND ended_at IS NULL AND expires_at > :at;

-- name: claims_of_session  the claims that end with a session
SELECT id, agent_id FROM claims WHERE session = :session AND ended_at IS NULL AND expires_at > :now;

-- name: forget_old_claims  claims that ended long ago
DELETE FROM claims WHERE expires_at < :before;
