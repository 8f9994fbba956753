-- The address that registered a client: those of one address make room first. Until `kept_until` a client is in use.
ALTER TABLE oauth_clients ADD COLUMN address TEXT NOT NULL DEFAULT '';
ALTER TABLE oauth_clients ADD COLUMN kept_until INTEGER NOT NULL DEFAULT 0;
-- Clients that have had tokens are kept for 90 days.
UPDATE oauth_clients SET kept_until = used_at + 7776000000000 WHERE used_at > saved_at;
