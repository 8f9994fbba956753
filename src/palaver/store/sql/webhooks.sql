-- name: insert_webhook  add a webhook
INSERT INTO webhooks (id, kind, owner, name, url, thread_id, events, from_webhooks, secret, key_hash, created_at, position)
VALUES (:id, :kind, :owner, :name, :url, :thread_id, :events, :from_webhooks, :secret, :key_hash, :created_at, :position);

-- name: webhooks  all webhooks; there are few
SELECT w.*, t.topic
FROM webhooks w LEFT JOIN documents d ON d.source = 'bus' AND d.native_id = w.thread_id
LEFT JOIN threads t ON t.document_id = d.id
ORDER BY w.created_at, w.id;

-- name: delete_webhook  remove a webhook
DELETE FROM webhooks WHERE id = :id;

-- name: change_webhook  store how far a webhook is; changes no row if another server has done so meanwhile
UPDATE webhooks
SET position = :position, attempts = :attempts, failing_since = :failing_since, next_at = :next_at, disabled = :disabled
WHERE id = :id AND position = :was_at AND COALESCE(next_at, 0) = :was_next;

-- name: put_webhook_call  store an attempt to send
INSERT INTO webhook_calls (webhook_id, id, event, at, attempts, status, problem)
VALUES (:webhook_id, :id, :event, :at, :attempts, :status, :problem)
ON CONFLICT (webhook_id, id) DO UPDATE
SET at = excluded.at, attempts = excluded.attempts, status = excluded.status, problem = excluded.problem;

-- name: webhook_calls  the latest attempts to send
SELECT * FROM webhook_calls WHERE webhook_id = :webhook_id ORDER BY at DESC, id DESC LIMIT 200;

-- name: forget_webhook_calls  forget old ones
DELETE FROM webhook_calls WHERE at < :before;
