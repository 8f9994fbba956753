-- name: insert_agent  returns no row if the slug or name is taken; the caller tries the next one
INSERT INTO agents (id, slug, name, display_name, description, ide, model, capabilities, skills, token_hash,
                    is_online, registered_at, last_heartbeat, last_activity, last_activity_time, client, project,
                    is_released, owner)
VALUES (:id, :slug, :name, :display_name, :description, :ide, :model, :capabilities, :skills, :token_hash,
        :is_online, :at, :at, :activity, :at, :client, :project, :is_released, :owner)
ON CONFLICT DO NOTHING;

-- name: agent  one agent
SELECT * FROM agents WHERE id = :id;

-- name: agents_called  agents with this id, slug, name or display name
SELECT * FROM agents WHERE id = :name OR slug = :name OR name = :name OR display_name = :name;

-- name: agents  all agents, oldest first
SELECT * FROM agents ORDER BY registered_at, id;

-- name: name  who has a name, by its folded form
SELECT name, holder FROM names WHERE key = :key;

-- name: take_name  keep a name for its holder; returns no row if it is taken
INSERT INTO names (key, name, holder) VALUES (:key, :name, :holder) ON CONFLICT DO NOTHING;

-- name: names_of  all names that somebody has or had
SELECT DISTINCT name FROM names WHERE holder = :holder;

-- name: names_from  keys between two bounds: those with the same prefix
SELECT key FROM names WHERE key >= :first AND key <= :last;

-- name: agents_without_names  agents whose names are not kept yet
SELECT id, slug, name, display_name FROM agents a
WHERE NOT EXISTS (SELECT 1 FROM names n WHERE n.holder = 'agent:' || a.id);

-- name: count_agents_named  how many agents have this slug or name
SELECT count(*) AS taken FROM agents WHERE slug = :slug OR name = :name;

-- name: touch_agent  record activity of an agent
UPDATE agents SET is_online = :is_online, last_heartbeat = :at, last_activity = :activity, last_activity_time = :at,
                  waiting_in = :waiting_in, is_released = :is_released
WHERE id = :id;

-- name: update_agent  change the profile of an agent
UPDATE agents SET description = :description, capabilities = :capabilities, skills = :skills WHERE id = :id;

-- name: rename_agent  change the names of an agent
UPDATE agents SET slug = :slug, display_name = :display_name WHERE id = :id;

-- name: agents_of_client  the agents of an owner in one client program, the oldest first
SELECT * FROM agents WHERE client = :client AND owner = :owner ORDER BY registered_at, id;

-- name: agents_of_program  the agents of all owners in one client program, the oldest first
SELECT * FROM agents WHERE client = :client ORDER BY registered_at, id;

-- name: agents_of_owner  the agents of one owner, with their client programs
SELECT id, client FROM agents WHERE owner = :owner;

-- name: set_agent_client  the program and project of an agent's last connection
UPDATE agents SET client = :client, project = :project WHERE id = :id;

-- name: set_agent_about  the program and model of an agent
UPDATE agents SET ide = :ide, model = :model WHERE id = :id;

-- name: delete_agent  remove an agent
DELETE FROM agents WHERE id = :id;

-- name: add_agent_secret  one more secret of an agent, or one that it gets again
INSERT INTO agent_secrets (token_hash, agent_id, created_at) VALUES (:token_hash, :agent_id, :at)
ON CONFLICT (token_hash) DO UPDATE SET created_at = excluded.created_at;

-- name: drop_old_agent_secrets  keep the newest secrets only
DELETE FROM agent_secrets WHERE agent_id = :agent_id AND token_hash NOT IN (
    SELECT token_hash FROM agent_secrets WHERE agent_id = :agent_id ORDER BY created_at DESC, token_hash LIMIT :keep
);

-- name: agent_secret  does an agent have this secret?
SELECT 1 AS found FROM agent_secrets WHERE agent_id = :agent_id AND token_hash = :token_hash;

-- name: bind_connection  store the agent of a connection
INSERT INTO agent_connections (id_hash, agent_id, used_at, program, project, folder)
VALUES (:id_hash, :agent_id, :at, :program, :project, :folder)
ON CONFLICT (id_hash) DO UPDATE SET agent_id = excluded.agent_id, used_at = excluded.used_at,
    program = excluded.program, project = excluded.project, folder = excluded.folder;

-- name: reported_projects  where the hooks of an agent's clients say that they work
SELECT DISTINCT project, folder FROM agent_connections
WHERE agent_id = :agent_id AND program = :program AND project <> '' AND used_at >= :since;

-- name: projects_of_hooks  where the hooks of an agent reported from
SELECT DISTINCT project FROM agent_connections WHERE agent_id = :agent_id AND substr(id_hash, 1, 5) = 'hook:';

-- name: connected_agent  the agent of a connection
SELECT agent_id FROM agent_connections WHERE id_hash = :id_hash;

-- name: connection_like  the latest connection whose key matches a pattern
SELECT id_hash AS key, agent_id, state, turn, waiter, announced, task FROM agent_connections
WHERE id_hash LIKE :pattern
ORDER BY used_at DESC LIMIT 1;

-- name: hook_connections  the sessions that hooks reported, the latest first
SELECT id_hash, agent_id, project FROM agent_connections WHERE substr(id_hash, 1, 5) = 'hook:' ORDER BY used_at DESC;

-- name: set_hook_session  what a session does now, and which call waits to wake it
UPDATE agent_connections SET state = :state, turn = :turn, waiter = :waiter, announced = :announced, task = :task
WHERE id_hash = :key;

-- name: end_waiting  a call does not wait any more
UPDATE agent_connections SET waiter = '' WHERE waiter = :waiter;

-- name: end_connection  forget a connection
DELETE FROM agent_connections WHERE id_hash = :id_hash;

-- name: rename_connection  a session goes on in another process
UPDATE agent_connections SET id_hash = :key WHERE id_hash = :id_hash;

-- name: connections_of_agent  the connections of an agent, without those that only start a program
SELECT id_hash, state, waiter FROM agent_connections WHERE agent_id = :agent_id AND program <> 'spawn';

-- name: starter_of_agent  a call that waits to start a program as the agent
SELECT 1 AS found FROM agent_connections WHERE agent_id = :agent_id AND program = 'spawn' AND waiter <> '';

-- name: forget_old_connections  forget connections that were not used lately
DELETE FROM agent_connections WHERE used_at < :before;

-- name: release_agent  make an agent free for other clients, or not
UPDATE agents SET is_released = :is_released WHERE id = :id;

-- name: set_agent_token  set the first secret of an agent
UPDATE agents SET token_hash = :token_hash WHERE id = :id;

-- name: agent_goes_offline  mark an agent as offline
UPDATE agents SET is_online = :is_online, waiting_in = NULL, last_activity = :activity, last_activity_time = :at
WHERE id = :id;

-- name: silent_agents  online agents that were not active lately, or were active in the future (the clock was set back)
SELECT * FROM agents WHERE is_online = :is_online AND (last_heartbeat < :before OR last_heartbeat > :after);

-- name: templates  stored templates, oldest first
SELECT * FROM templates ORDER BY created_at, id;

-- name: insert_template  returns no row if the id is taken
INSERT INTO templates (id, name, description, system_prompt, default_metadata, created_at)
VALUES (:id, :name, :description, :system_prompt, :default_metadata, :created_at)
ON CONFLICT DO NOTHING;

-- name: update_template  change a template
UPDATE templates
SET name = :name, description = :description, system_prompt = :system_prompt, default_metadata = :default_metadata
WHERE id = :id;

-- name: delete_template  remove a template
DELETE FROM templates WHERE id = :id;

-- name: put_mcp_session  remember how an MCP session began, or that it has ended; it begins and ends only once
INSERT INTO mcp_sessions (id_hash, token_id, opening, used_at) VALUES (:id_hash, :token_id, :opening, :used_at)
ON CONFLICT (id_hash) DO UPDATE SET used_at = excluded.used_at,
    opening = CASE excluded.opening WHEN '' THEN '' ELSE mcp_sessions.opening END;

-- name: mcp_session  how an MCP session began
SELECT token_id, opening FROM mcp_sessions WHERE id_hash = :id_hash;

-- name: touch_mcp_session  an MCP session is in use
UPDATE mcp_sessions SET used_at = :used_at WHERE id_hash = :id_hash;

-- name: forget_mcp_sessions  delete MCP sessions that were not used lately
DELETE FROM mcp_sessions WHERE used_at < :before;
