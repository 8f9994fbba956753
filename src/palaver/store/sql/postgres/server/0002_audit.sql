-- What was done that somebody may have to answer for. Rows are only ever added; each holds a hash over itself and the one
-- before it, and the head knows the last, so that a row changed, taken out or cut off the end is noticed.
CREATE TABLE audit (
    id bigint PRIMARY KEY,
    at bigint NOT NULL,
    workspace text,
    kind text NOT NULL,
    who text NOT NULL,
    what text NOT NULL,
    facts text NOT NULL,
    hash text NOT NULL
);
CREATE INDEX audit_workspace ON audit (workspace, id);

CREATE TABLE audit_head (one bigint PRIMARY KEY CHECK (one = 1), id bigint NOT NULL, hash text NOT NULL);
INSERT INTO audit_head (one, id, hash) VALUES (1, 0, '');

CREATE FUNCTION audit_only_grows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log only grows';
END $$;
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION audit_only_grows();
