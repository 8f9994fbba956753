-- is_over: the agent has handled the message, or it is not in the context any more. The row stays, for the receipt.
ALTER TABLE delivered_messages ADD COLUMN is_over integer NOT NULL DEFAULT 0;

-- Messages that come back to their sender if nobody has read them at this time.
CREATE TABLE returns (
    passage_id bigint PRIMARY KEY REFERENCES passages (id) ON DELETE CASCADE,
    due_at bigint NOT NULL
);
CREATE INDEX returns_due ON returns (due_at);
