-- name: insert_login
INSERT INTO logins (hash, token_id, created_at, expires_at) VALUES (:hash, :token_id, :created_at, :expires_at);

-- name: token_by_login
SELECT t.* FROM logins l JOIN tokens t ON t.id = l.token_id WHERE l.hash = :hash AND l.expires_at > :now;

-- name: live_logins
SELECT hash FROM logins WHERE expires_at > :now;

-- name: logins_of_token
SELECT hash FROM logins WHERE token_id = :token_id;

-- name: delete_login
DELETE FROM logins WHERE hash = :hash;

-- name: delete_logins
DELETE FROM logins WHERE token_id = :token_id;

-- name: delete_old_logins
DELETE FROM logins WHERE expires_at <= :now;
