-- name: insert_workspace
INSERT INTO workspaces (name, created_at) VALUES (:name, :created_at) ON CONFLICT (name) DO NOTHING;

-- name: workspace
SELECT name, created_at FROM workspaces WHERE name = :name;

-- name: delete_workspace
DELETE FROM workspaces WHERE name = :name;

-- name: workspaces
SELECT name, created_at FROM workspaces ORDER BY name;

-- name: insert_token
INSERT INTO tokens (id, hash, workspace, kind, name, agent_id, scopes, created_at, expires_at)
VALUES (:id, :hash, :workspace, :kind, :name, :agent_id, :scopes, :created_at, :expires_at);

-- name: token_by_hash
SELECT * FROM tokens WHERE hash = :hash;

-- name: token_by_id
SELECT * FROM tokens WHERE id = :id;

-- name: tokens
SELECT * FROM tokens ORDER BY created_at, id;

-- name: touch_token
UPDATE tokens SET last_used_at = :at WHERE id = :id;

-- name: delete_token
DELETE FROM tokens WHERE id = :id;

-- name: tokens_of
SELECT * FROM tokens WHERE workspace = :workspace ORDER BY created_at, id;

-- name: token_of
SELECT * FROM tokens WHERE workspace = :workspace AND id = :id;

-- name: live_tokens
SELECT id FROM tokens WHERE expires_at IS NULL OR expires_at > :now;

-- name: take_audit_id
UPDATE audit_head SET id = id + 1 WHERE one = 1 RETURNING id, hash;

-- name: audit_head
SELECT id, hash FROM audit_head;

-- name: set_audit_hash
UPDATE audit_head SET hash = :hash WHERE one = 1;

-- name: insert_audit
INSERT INTO audit (id, at, workspace, kind, who, what, facts, hash)
VALUES (:id, :at, :workspace, :kind, :who, :what, :facts, :hash);

-- name: audit_after
SELECT * FROM audit WHERE id > :after ORDER BY id LIMIT :limit;

-- name: audit_latest
SELECT * FROM audit
WHERE (CAST(:workspace AS text) IS NULL OR workspace = :workspace)
  AND (CAST(:kind AS text) IS NULL OR kind = :kind)
  AND id < :before
ORDER BY id DESC LIMIT :limit;
