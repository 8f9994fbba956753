-- Texts that the server gave to a hook. shown_at is when the hook confirmed that it had written the text. The session is
-- that of the client, as a hash. is_past: the text is no longer in the context of the model, which was compacted.
CREATE TABLE deliveries (
    id TEXT PRIMARY KEY,
    session TEXT NOT NULL,
    reader TEXT NOT NULL,
    is_briefing INTEGER NOT NULL,
    is_past INTEGER NOT NULL DEFAULT 0,
    offered_at INTEGER NOT NULL,
    shown_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX deliveries_session ON deliveries (session, reader);
CREATE INDEX deliveries_offered ON deliveries (offered_at);

-- The messages in a delivery, until the agent has dealt with them.
CREATE TABLE delivered_messages (
    passage_id INTEGER NOT NULL REFERENCES passages (id) ON DELETE CASCADE,
    delivery_id TEXT NOT NULL REFERENCES deliveries (id) ON DELETE CASCADE,
    PRIMARY KEY (passage_id, delivery_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX delivered_messages_delivery ON delivered_messages (delivery_id);
