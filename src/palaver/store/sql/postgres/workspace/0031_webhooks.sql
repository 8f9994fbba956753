-- Webhooks. Kind 'out' sends events to `url`: those after `position`, and of one thread if `thread_id` is given. Other kinds
-- post in that thread what comes to an address whose secret part has the hash `key_hash`. `secret` signs. `next_at` is when
-- another attempt is due, also while a server sends. `disabled` says why nothing is sent.
CREATE TABLE webhooks (
    id text PRIMARY KEY,
    kind text NOT NULL,
    owner text NOT NULL,
    name text NOT NULL,
    url text NOT NULL,
    thread_id text,
    events text NOT NULL,
    from_webhooks boolean NOT NULL,
    secret text NOT NULL,
    key_hash text UNIQUE,
    created_at bigint NOT NULL,
    position bigint NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    failing_since bigint,
    next_at bigint,
    disabled text
);

-- What webhooks sent lately, with the id that the receiver knows it by. No texts.
CREATE TABLE webhook_calls (
    webhook_id text NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    id text NOT NULL,
    event text NOT NULL,
    at bigint NOT NULL,
    attempts integer NOT NULL,
    status integer,
    problem text,
    PRIMARY KEY (webhook_id, id)
);
CREATE INDEX webhook_calls_at ON webhook_calls (at);
