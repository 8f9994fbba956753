-- name: insert_login  store a login
INSERT INTO logins (hash, token_id, created_at, expires_at) VALUES (:hash, :token_id, :created_at, :expires_at);

-- name: token_by_login  the token of a cookie
SELECT t.* FROM logins l JOIN tokens t ON t.id = l.token_id WHERE l.hash = :hash AND l.expires_at > :now;

-- name: live_logins  logins that have not expired
SELECT hash FROM logins WHERE expires_at > :now;

-- name: logins_of_token  the logins of a token
SELECT hash FROM logins WHERE token_id = :token_id;

-- name: delete_login  end a login
DELETE FROM logins WHERE hash = :hash;

-- name: delete_logins  end all logins of a token
DELETE FROM logins WHERE token_id = :token_id;

-- name: delete_old_logins  remove expired logins
DELETE FROM logins WHERE expires_at <= :now;
