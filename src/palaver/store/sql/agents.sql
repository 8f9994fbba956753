-- name: insert_agent  a slug or name that is taken gives no row: the next one is tried
INSERT INTO agents (id, slug, name, display_name, description, ide, model, capabilities, skills, token_hash,
                    is_online, registered_at, last_heartbeat, last_activity, last_activity_time)
VALUES (:id, :slug, :name, :display_name, :description, :ide, :model, :capabilities, :skills, :token_hash,
        :is_online, :at, :at, :activity, :at)
ON CONFLICT DO NOTHING;

-- name: agent
SELECT * FROM agents WHERE id = :id;

-- name: agents_called  by id, slug, name or display name
SELECT * FROM agents WHERE id = :name OR slug = :name OR name = :name OR display_name = :name;

-- name: agents
SELECT * FROM agents ORDER BY registered_at, id;

-- name: slugs_from  those that begin alike, which is all that stands between two bounds
SELECT slug FROM agents WHERE slug >= :first AND slug <= :last;

-- name: names_from
SELECT name FROM agents WHERE name >= :first AND name <= :last;

-- name: count_agents_named
SELECT count(*) AS taken FROM agents WHERE slug = :slug OR name = :name;

-- name: touch_agent
UPDATE agents SET is_online = :is_online, last_heartbeat = :at, last_activity = :activity, last_activity_time = :at,
                  waiting_in = :waiting_in
WHERE id = :id;

-- name: update_agent
UPDATE agents SET display_name = :display_name, description = :description, capabilities = :capabilities,
                  skills = :skills
WHERE id = :id;

-- name: rename_agent
UPDATE agents SET display_name = :display_name WHERE id = :id;

-- name: set_agent_token
UPDATE agents SET token_hash = :token_hash WHERE id = :id;

-- name: agent_goes_offline
UPDATE agents SET is_online = :is_online, waiting_in = NULL, last_activity = :activity, last_activity_time = :at
WHERE id = :id;

-- name: silent_agents  also whoever was heard of in the future: the clock was set back
SELECT * FROM agents WHERE is_online = :is_online AND (last_heartbeat < :before OR last_heartbeat > :after);

-- name: templates
SELECT * FROM templates ORDER BY created_at, id;

-- name: template
SELECT * FROM templates WHERE id = :id;

-- name: insert_template
INSERT INTO templates (id, name, description, system_prompt, default_metadata, created_at)
VALUES (:id, :name, :description, :system_prompt, :default_metadata, :created_at)
ON CONFLICT DO NOTHING;

-- name: delete_template
DELETE FROM templates WHERE id = :id;

-- name: count_passages
SELECT count(*) AS messages FROM passages p JOIN documents d ON d.id = p.document_id
WHERE d.source = 'bus' AND p.position > 0;
