-- A server opens these workspaces when it starts, to send what is left to send.
CREATE TABLE webhook_workspaces (
    name TEXT PRIMARY KEY REFERENCES workspaces (name) ON DELETE CASCADE
) STRICT;
