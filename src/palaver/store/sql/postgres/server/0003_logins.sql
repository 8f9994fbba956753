-- Who is logged in to the console: a hash of the cookie, and the token that opened the door. It ends with the token.
CREATE TABLE logins (
    hash text PRIMARY KEY,
    token_id text NOT NULL REFERENCES tokens (id) ON DELETE CASCADE,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL
);
CREATE INDEX logins_token ON logins (token_id);
