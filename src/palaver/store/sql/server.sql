-- name: insert_workspace  returns no row if the workspace is in the list
INSERT INTO workspaces (name, created_at) VALUES (:name, :created_at) ON CONFLICT (name) DO NOTHING;

-- name: workspace  one workspace of the list
SELECT name, created_at FROM workspaces WHERE name = :name;

-- name: delete_workspace  remove a workspace from the list
DELETE FROM workspaces WHERE name = :name;

-- name: workspaces  the list of workspaces
SELECT name, created_at FROM workspaces ORDER BY name;

-- name: note_webhooks  store that a workspace has webhooks
INSERT INTO webhook_workspaces (name) VALUES (:name) ON CONFLICT (name) DO NOTHING;

-- name: workspaces_with_webhooks  the workspaces that have or had webhooks
SELECT name FROM webhook_workspaces ORDER BY name;

-- name: insert_token  store a token
INSERT INTO tokens (id, hash, workspace, kind, name, agent_id, scopes, created_at, expires_at)
VALUES (:id, :hash, :workspace, :kind, :name, :agent_id, :scopes, :created_at, :expires_at);

-- name: token_by_hash  the token with this secret
SELECT * FROM tokens WHERE hash = :hash;

-- name: token_by_id  the token with this id
SELECT * FROM tokens WHERE id = :id;

-- name: tokens  all tokens
SELECT * FROM tokens ORDER BY created_at, id;

-- name: touch_token  store when a token was used
UPDATE tokens SET last_used_at = :at WHERE id = :id;

-- name: delete_token  revoke a token
DELETE FROM tokens WHERE id = :id;

-- name: tokens_of  the tokens of a workspace
SELECT * FROM tokens WHERE workspace = :workspace ORDER BY created_at, id;

-- name: token_of  one token of a workspace
SELECT * FROM tokens WHERE workspace = :workspace AND id = :id;

-- name: live_tokens  tokens that have not expired
SELECT id FROM tokens WHERE expires_at IS NULL OR expires_at > :now;

-- name: take_audit_id  the lock on this row puts audit entries in order
UPDATE audit_head SET id = id + 1 WHERE one = 1 RETURNING id, hash;

-- name: audit_head  the id and hash of the last audit entry
SELECT id, hash FROM audit_head;

-- name: set_audit_hash  store the hash of the last audit entry
UPDATE audit_head SET hash = :hash WHERE one = 1;

-- name: insert_audit  add an audit entry
INSERT INTO audit (id, at, workspace, kind, who, what, facts, hash)
VALUES (:id, :at, :workspace, :kind, :who, :what, :facts, :hash);

-- name: audit_after  the next audit entries
SELECT * FROM audit WHERE id > :after ORDER BY id LIMIT :limit;

-- name: audit_latest  the newest audit entries
SELECT * FROM audit
WHERE (CAST(:workspace AS text) IS NULL OR workspace = :workspace
         OR (:with_unknown_callers = 1 AND workspace IS NULL AND kind = 'denied'))
  AND (CAST(:kind AS text) IS NULL OR kind = :kind)
  AND id < :before
ORDER BY id DESC LIMIT :limit;
