-- Texts that the server gave to a hook. shown_at is when the hook confirmed that it had written the text. The session is
-- that of the client, as a hash. is_past: the text is no longer in the context of the model, which was compacted.
CREATE TABLE deliveries (
    id text PRIMARY KEY,
    session text NOT NULL,
    reader text NOT NULL,
    is_briefing boolean NOT NULL,
    is_past boolean NOT NULL DEFAULT false,
    offered_at bigint NOT NULL,
    shown_at bigint
);
CREATE INDEX deliveries_session ON deliveries (session, reader);
CREATE INDEX deliveries_offered ON deliveries (offered_at);

-- The messages in a delivery, until the agent has dealt with them.
CREATE TABLE delivered_messages (
    passage_id bigint NOT NULL REFERENCES passages (id) ON DELETE CASCADE,
    delivery_id text NOT NULL REFERENCES deliveries (id) ON DELETE CASCADE,
    PRIMARY KEY (passage_id, delivery_id)
);
CREATE INDEX delivered_messages_delivery ON delivered_messages (delivery_id);
