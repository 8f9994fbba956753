-- name: save_oauth_client  store a client, or what it says of itself now
INSERT INTO oauth_clients (id, name, redirect_uris, saved_at, used_at, address)
VALUES (:id, :name, :redirect_uris, :at, :at, :address)
ON CONFLICT (id) DO UPDATE SET name = excluded.name, redirect_uris = excluded.redirect_uris,
    saved_at = excluded.saved_at, used_at = excluded.used_at;

-- name: oauth_client  one client
SELECT * FROM oauth_clients WHERE id = :id;

-- name: keep_oauth_client  a person deals with a client, so it is not removed until then
UPDATE oauth_clients SET kept_until = :until WHERE id = :id AND kept_until < :until;

-- name: delete_old_oauth_clients  remove clients that nobody uses: old ones, and those beyond :most; the addresses with most lose theirs first
DELETE FROM oauth_clients WHERE id IN (
    SELECT id FROM (
        SELECT id, used_at, row_number() OVER (ORDER BY place, used_at DESC) AS rank FROM (
            SELECT id, used_at, row_number() OVER (PARTITION BY address ORDER BY used_at DESC) AS place
            FROM oauth_clients WHERE kept_until <= :now AND id NOT IN (SELECT client_id FROM oauth_grants)
        ) AS placed
    ) AS ranked
    WHERE used_at <= :before OR rank > :most
);

-- name: insert_oauth_grant  store a connected application
INSERT INTO oauth_grants (id, client_id, token_id, application, agent_id, agent, scopes, resource, created_at, expires_at)
VALUES (:id, :client_id, :token_id, :application, :agent_id, :agent, :scopes, :resource, :created_at, :expires_at);

-- name: extend_oauth_grant  an application got a new refresh token
UPDATE oauth_grants SET expires_at = :expires_at, last_used_at = :at WHERE id = :id;

-- name: touch_oauth_grant  store when an application was used
UPDATE oauth_grants SET last_used_at = :at WHERE id = :id;

-- name: delete_oauth_grant  revoke an application, with its codes and tokens
DELETE FROM oauth_grants WHERE id = :id;

-- name: delete_old_oauth_grants  remove applications whose last refresh token has expired
DELETE FROM oauth_grants WHERE expires_at <= :now;

-- name: oauth_grants  connected applications, with their people
SELECT g.*, t.workspace, t.name AS person FROM oauth_grants g JOIN tokens t ON t.id = g.token_id
WHERE g.expires_at > :now AND (t.expires_at IS NULL OR t.expires_at > :now)
  AND (CAST(:workspace AS text) IS NULL OR t.workspace = :workspace)
ORDER BY g.created_at, g.id;

-- name: insert_oauth_secret  store a code, an access token or a refresh token
INSERT INTO oauth_secrets (hash, grant_id, kind, scopes, redirect_uri, code_challenge, expires_at)
VALUES (:hash, :grant_id, :kind, :scopes, :redirect_uri, :code_challenge, :expires_at);

-- name: oauth_secret  a code or token with its application, unless the person's own token has expired
SELECT g.*, t.workspace, t.name AS person, s.scopes AS secret_scopes, s.redirect_uri, s.code_challenge,
    s.expires_at AS secret_expires_at, s.used_at
FROM oauth_secrets s JOIN oauth_grants g ON g.id = s.grant_id JOIN tokens t ON t.id = g.token_id
WHERE s.hash = :hash AND s.kind = :kind AND (t.expires_at IS NULL OR t.expires_at > :now);

-- name: use_oauth_secret  mark a code or refresh token as used; changes no row if it was used before
UPDATE oauth_secrets SET used_at = :now WHERE hash = :hash AND used_at IS NULL;

-- name: delete_old_oauth_secrets  remove tokens of an application that have expired; its code stays, to notice a second use
DELETE FROM oauth_secrets WHERE grant_id = :grant_id AND kind <> 'code' AND expires_at <= :now;

-- name: live_oauth_keys  applications and access tokens that have not expired
SELECT g.id AS key FROM oauth_grants g JOIN tokens t ON t.id = g.token_id
WHERE g.expires_at > :now AND (t.expires_at IS NULL OR t.expires_at > :now)
UNION ALL SELECT hash AS key FROM oauth_secrets WHERE kind = 'access' AND expires_at > :now;

-- name: oauth_agent  the agent of an application of a person
SELECT agent_id FROM oauth_agents WHERE workspace = :workspace AND person = :person AND application = :application;

-- name: save_oauth_agent  remember the agent of an application
INSERT INTO oauth_agents (workspace, person, application, agent_id)
VALUES (:workspace, :person, :application, :agent_id)
ON CONFLICT (workspace, person, application) DO UPDATE SET agent_id = excluded.agent_id;
