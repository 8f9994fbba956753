-- name: insert_webhook  add a webhook
INSERT INTO webhooks (id, kind, owner, name, url, thread_id, events, from_webhooks, secret, key_hash, created_at, position)
VALUES (:id, :kind, :owner, :name, :url, :thread_id, :events, :from_webhooks, :secret, :key_hash, :created_at, :position);

-- name: webhooks  all webhooks
SELECT * FROM webhooks ORDER BY created_at, id;

-- name: webhook  one webhook
SELECT * FROM webhooks WHERE id = :id;

-- name: webhook_by_key  the webhook with this secret in its address
SELECT * FROM webhooks WHERE key_hash = :key_hash;

-- name: delete_webhook  remove a webhook
DELETE FROM webhooks WHERE id = :id;

-- name: enable_webhook  send again, from this position on
UPDATE webhooks SET disabled = NULL, attempts = 0, failing_since = NULL, next_at = NULL, position = :position
WHERE id = :id;

-- name: take_webhook_lease  returns no row if another server sends, or has sent, the event after this position; a lease
-- that ends after `far` is from a clock that was wrong
UPDATE webhooks SET lease = :until
WHERE id = :id AND position = :position AND lease NOT BETWEEN :now AND :far AND disabled IS NULL
RETURNING lease;

-- name: end_webhook_lease  store how sending ended
UPDATE webhooks SET position = :position, attempts = :attempts, failing_since = :failing_since, next_at = :next_at,
       disabled = :disabled, lease = 0
WHERE id = :id AND lease = :lease;

-- name: move_webhook  store that there is nothing to send up to this position
UPDATE webhooks SET position = :position WHERE id = :id AND position = :before;

-- name: put_webhook_call  store an attempt to send
INSERT INTO webhook_calls (webhook_id, id, event, at, attempts, status, problem)
VALUES (:webhook_id, :id, :event, :at, :attempts, :status, :problem)
ON CONFLICT (webhook_id, id) DO UPDATE
SET at = excluded.at, attempts = excluded.attempts, status = excluded.status, problem = excluded.problem;

-- name: insert_webhook_call  changes no row if this delivery has been received before
INSERT INTO webhook_calls (webhook_id, id, event, at, attempts)
VALUES (:webhook_id, :id, :event, :at, 1)
ON CONFLICT (webhook_id, id) DO NOTHING;

-- name: webhook_calls  the latest attempts to send, and what was received
SELECT * FROM webhook_calls
WHERE webhook_id = :webhook_id AND (:failed = 0 OR problem IS NOT NULL)
ORDER BY at DESC, id DESC LIMIT :limit;

-- name: forget_webhook_calls  forget old ones
DELETE FROM webhook_calls WHERE at < :before;
