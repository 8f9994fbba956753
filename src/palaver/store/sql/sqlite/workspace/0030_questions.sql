-- Questions to people. A question is a message, and its text is only there. fingerprint: of its words, so that the same
-- question is found again. expired_at is when its end was announced. choice is one of the choices that it gave.
CREATE TABLE questions (
    passage_id INTEGER PRIMARY KEY REFERENCES passages (id) ON DELETE CASCADE,
    fingerprint TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    expired_at INTEGER,
    answered_at INTEGER,
    answered_by TEXT,
    choice TEXT,
    answer_passage_id INTEGER REFERENCES passages (id) ON DELETE SET NULL
) STRICT;
CREATE INDEX questions_same ON questions (fingerprint, answered_at);
CREATE INDEX questions_due ON questions (expires_at) WHERE answered_at IS NULL AND expired_at IS NULL;
CREATE INDEX questions_answer ON questions (answer_passage_id);
