-- name: insert_question  a message asks people something
INSERT INTO questions (passage_id, fingerprint, expires_at) VALUES (:passage_id, :fingerprint, :expires_at);

-- name: questions  the newest questions between two passages, of one asker or all, in one state or all
SELECT * FROM (
    SELECT q.passage_id, q.fingerprint, q.expires_at, q.answered_at, q.answered_by, q.choice, q.answer_passage_id,
           p.native_id AS question_id, p.document_id, d.native_id AS thread_id, t.topic, p.author_id AS agent_id,
           p.author, p.text, p.data, p.created_at AS asked_at, a.native_id AS answer_id, a.text AS answer,
           CASE WHEN q.answered_at IS NOT NULL THEN 'answered' WHEN q.expires_at > :now THEN 'open' ELSE 'expired' END
           AS state
    FROM questions q JOIN passages p ON p.id = q.passage_id JOIN documents d ON d.id = p.document_id
         JOIN threads t ON t.document_id = d.id LEFT JOIN passages a ON a.id = q.answer_passage_id
    WHERE q.passage_id BETWEEN :first AND :last AND (CAST(:agent_id AS text) IS NULL OR p.author_id = :agent_id)
) found
WHERE :state = 'all' OR state = :state
ORDER BY passage_id DESC
LIMIT :limit;

-- name: answers_to_same  the latest answers to the same question
SELECT p.native_id AS question_id, a.text AS answer, q.answered_by, q.answered_at
FROM questions q JOIN passages p ON p.id = q.passage_id JOIN passages a ON a.id = q.answer_passage_id
WHERE q.fingerprint = :fingerprint AND q.passage_id <> :passage_id
ORDER BY q.answered_at DESC
LIMIT :limit;

-- name: answer_question  the first answer counts: this changes no row if there is one, or if the question has expired
UPDATE questions SET answered_at = :at, answered_by = :answered_by, choice = :choice
WHERE passage_id = :passage_id AND answered_at IS NULL AND expired_at IS NULL AND expires_at > :at;

-- name: set_answer_message  the message with the answer
UPDATE questions SET answer_passage_id = :answer_passage_id WHERE passage_id = :passage_id;

-- name: end_question  nobody waits for its answer any more
UPDATE questions SET expires_at = :at WHERE passage_id = :passage_id AND answered_at IS NULL AND expires_at > :at;

-- name: has_expired_questions  is there one whose end was not announced?
SELECT 1 AS one FROM questions WHERE answered_at IS NULL AND expired_at IS NULL AND expires_at <= :at LIMIT 1;

-- name: expire_questions  announce the end of questions that nobody answered
UPDATE questions SET expired_at = :at WHERE answered_at IS NULL AND expired_at IS NULL AND expires_at <= :at
RETURNING passage_id;

-- name: is_question  whether a message is a question or the answer to one
SELECT 1 AS one FROM questions WHERE passage_id = :passage_id OR answer_passage_id = :passage_id;
