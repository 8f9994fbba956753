-- The indexes of the tables of a server that both engines have. A migration that adds one adds it here too.

CREATE INDEX audit_workspace ON audit (workspace, id);
CREATE INDEX logins_token ON logins (token_id);
CREATE INDEX oauth_clients_used ON oauth_clients (used_at);
CREATE INDEX oauth_grants_client ON oauth_grants (client_id);
CREATE INDEX oauth_grants_token ON oauth_grants (token_id);
CREATE INDEX oauth_secrets_grant ON oauth_secrets (grant_id);
CREATE INDEX oauth_secrets_live ON oauth_secrets (kind, expires_at);
