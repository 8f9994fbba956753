-- Who is logged in to the console: a hash of the cookie, and the token that opened the door. It ends with the token.
CREATE TABLE logins (
    hash TEXT PRIMARY KEY,
    token_id TEXT NOT NULL REFERENCES tokens (id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX logins_token ON logins (token_id);
