-- What the agents edit: the last edit of a session in a file, for some days. session: the hash of its id. project_key and
-- path_key are the same for every spelling. is_probable: the edit was read in a session's file, no hook has told it.
CREATE TABLE file_edits (
    session text NOT NULL,
    machine text NOT NULL,
    worktree text NOT NULL,
    path text NOT NULL,
    path_key text NOT NULL,
    project text NOT NULL,
    project_key text NOT NULL,
    branch text NOT NULL,
    lines text NOT NULL,
    task text NOT NULL,
    agent_id text NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    is_probable integer NOT NULL,
    first_at bigint NOT NULL,
    last_at bigint NOT NULL,
    PRIMARY KEY (session, machine, worktree, path)
);
CREATE INDEX file_edits_path ON file_edits (project_key, path_key);
CREATE INDEX file_edits_time ON file_edits (last_at);
CREATE INDEX file_edits_agent ON file_edits (agent_id);

-- What a session was told before an edit, and which edits were stopped for it.
CREATE TABLE edit_warnings (
    session text NOT NULL,
    about text NOT NULL,
    edits text NOT NULL,
    told_at bigint NOT NULL,
    PRIMARY KEY (session, about)
);
CREATE INDEX edit_warnings_time ON edit_warnings (told_at);

-- What the person asked the session for.
ALTER TABLE agent_connections ADD COLUMN task text NOT NULL DEFAULT '';
