-- The sessions that hooks report. state: idle, working, or woken by us. turn: how many turns began. waiter: the call that
-- waits to wake the session, or ''. announced: the last passage of a summary; those up to it do not wake it again.
ALTER TABLE agent_connections ADD COLUMN state TEXT NOT NULL DEFAULT 'idle';
ALTER TABLE agent_connections ADD COLUMN turn INTEGER NOT NULL DEFAULT 0;
ALTER TABLE agent_connections ADD COLUMN waiter TEXT NOT NULL DEFAULT '';
ALTER TABLE agent_connections ADD COLUMN announced INTEGER NOT NULL DEFAULT 0;

-- way: how a text reaches its session: wake, prompt, stop or briefing. turn: the turn of the session that reads it.
ALTER TABLE deliveries ADD COLUMN way TEXT NOT NULL DEFAULT '';
ALTER TABLE deliveries ADD COLUMN turn INTEGER NOT NULL DEFAULT 0;
