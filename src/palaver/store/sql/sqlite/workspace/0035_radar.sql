-- What the agents edit: the last edit of a session in a file, for some days. session: the hash of its id. project_key and
-- path_key are the same for every spelling. is_probable: the edit was read in a session's file, no hook has told it.
CREATE TABLE file_edits (
    session TEXT NOT NULL,
    machine TEXT NOT NULL,
    worktree TEXT NOT NULL,
    path TEXT NOT NULL,
    path_key TEXT NOT NULL,
    project TEXT NOT NULL,
    project_key TEXT NOT NULL,
    branch TEXT NOT NULL,
    lines TEXT NOT NULL,
    task TEXT NOT NULL,
    agent_id TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    is_probable INTEGER NOT NULL,
    first_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    PRIMARY KEY (session, machine, worktree, path)
) STRICT;
CREATE INDEX file_edits_path ON file_edits (project_key, path_key);
CREATE INDEX file_edits_time ON file_edits (last_at);
CREATE INDEX file_edits_agent ON file_edits (agent_id);

-- What a session was told before an edit, and which edits were stopped for it.
CREATE TABLE edit_warnings (
    session TEXT NOT NULL,
    about TEXT NOT NULL,
    edits TEXT NOT NULL,
    told_at INTEGER NOT NULL,
    PRIMARY KEY (session, about)
) STRICT;
CREATE INDEX edit_warnings_time ON edit_warnings (told_at);

-- What the person asked the session for.
ALTER TABLE agent_connections ADD COLUMN task TEXT NOT NULL DEFAULT '';
