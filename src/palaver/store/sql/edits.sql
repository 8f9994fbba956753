-- name: put_file_edit  a session edits a file, or edits it again
INSERT INTO file_edits (session, machine, worktree, path, path_key, project, project_key, branch, lines, task, agent_id,
    is_probable, first_at, last_at)
VALUES (:session, :machine, :worktree, :path, :path_key, :project, :project_key, :branch, :lines, :task, :agent_id,
    :is_probable, :first_at, :last_at)
ON CONFLICT (session, machine, worktree, path) DO UPDATE SET project = excluded.project,
    project_key = excluded.project_key, branch = excluded.branch, lines = excluded.lines, task = excluded.task,
    agent_id = excluded.agent_id, is_probable = excluded.is_probable, last_at = excluded.last_at,
    first_at = CASE WHEN file_edits.last_at < :before THEN excluded.first_at ELSE file_edits.first_at END
WHERE file_edits.last_at <= excluded.last_at AND file_edits.is_probable >= excluded.is_probable;

-- name: edits_of_file  who edited a file lately, the latest first
SELECT * FROM file_edits WHERE project_key = :project_key AND path_key = :path_key AND last_at >= :since
ORDER BY last_at DESC, session;

-- name: edits_since  who edited which files lately, the latest first
SELECT * FROM file_edits WHERE last_at >= :since ORDER BY last_at DESC, session, path;

-- name: told_edit  has a hook told edits of a session?
SELECT 1 AS found FROM file_edits WHERE session = :session AND is_probable = 0 LIMIT 1;

-- name: forget_old_edits  edits that nobody is told about any more
DELETE FROM file_edits WHERE last_at < :before;

-- name: edit_warning  the edits that were stopped when a session was told something
SELECT edits, told_at FROM edit_warnings WHERE session = :session AND about = :about;

-- name: put_edit_warning  a session is told something before an edit
INSERT INTO edit_warnings (session, about, edits, told_at) VALUES (:session, :about, :edits, :at)
ON CONFLICT (session, about) DO UPDATE SET edits = excluded.edits, told_at = excluded.told_at;

-- name: forget_old_warnings  what was told long ago
DELETE FROM edit_warnings WHERE told_at < :before;
