-- name: insert_workspace
INSERT INTO workspaces (name, created_at) VALUES (:name, :created_at) ON CONFLICT (name) DO NOTHING;

-- name: workspace
SELECT name, created_at FROM workspaces WHERE name = :name;

-- name: workspaces
SELECT name, created_at FROM workspaces ORDER BY name;

-- name: insert_token
INSERT INTO tokens (id, hash, workspace, kind, name, agent_id, scopes, created_at, expires_at)
VALUES (:id, :hash, :workspace, :kind, :name, :agent_id, :scopes, :created_at, :expires_at);

-- name: token_by_hash
SELECT * FROM tokens WHERE hash = :hash;

-- name: tokens
SELECT * FROM tokens ORDER BY created_at, id;

-- name: touch_token
UPDATE tokens SET last_used_at = :at WHERE id = :id;

-- name: delete_token
DELETE FROM tokens WHERE id = :id;
