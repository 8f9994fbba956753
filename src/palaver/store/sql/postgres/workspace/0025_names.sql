-- The names that are taken, by their folded form: those that agents have or had, and those of people. The holder is
-- 'agent:ID' or 'human:NAME'. A name is never given away: not after a renaming, and not after the agent was removed.
CREATE TABLE names (
    key text PRIMARY KEY,
    name text NOT NULL,
    holder text NOT NULL
);
CREATE INDEX names_holder ON names (holder);
