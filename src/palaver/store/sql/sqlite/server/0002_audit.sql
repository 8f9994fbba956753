-- What was done that somebody may have to answer for. Rows are only ever added; each holds a hash over itself and the one
-- before it, and the head knows the last, so that a row changed, taken out or cut off the end is noticed.
CREATE TABLE audit (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    workspace TEXT,
    kind TEXT NOT NULL,
    who TEXT NOT NULL,
    what TEXT NOT NULL,
    facts TEXT NOT NULL,
    hash TEXT NOT NULL
) STRICT;
CREATE INDEX audit_workspace ON audit (workspace, id);

CREATE TABLE audit_head (one INTEGER PRIMARY KEY CHECK (one = 1), id INTEGER NOT NULL, hash TEXT NOT NULL) STRICT;
INSERT INTO audit_head (one, id, hash) VALUES (1, 0, '');

CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit log only grows'); END;
CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit log only grows'); END;
