-- name: document_page  the next documents, also deleted ones
SELECT id, source, native_id, title, agent_id, data FROM documents WHERE id > :after ORDER BY id LIMIT :limit;

-- name: passage_page_of_all  the next passages of all documents, also of deleted ones
SELECT id, document_id, position, native_id, author_id, text, data, created_at FROM passages
WHERE id > :after ORDER BY id LIMIT :limit;

-- name: body_page  the next whole texts
SELECT document_id, field, text FROM bodies
WHERE document_id > :after OR (document_id = :after AND field > :field) ORDER BY document_id, field LIMIT :limit;

-- name: edit_page  the next texts before an edit
SELECT passage_id, version, old_content AS text FROM edits
WHERE passage_id > :after OR (passage_id = :after AND version > :version) ORDER BY passage_id, version LIMIT :limit;

-- name: fingerprints_of_document  what was in the files that an item was imported from
SELECT fingerprint FROM origins WHERE document_id = :document_id;

-- name: all_reactions  the reactions to all messages
SELECT id, reaction FROM reactions;

-- name: all_saved_searches  the saved searches of everybody
SELECT id, name, query FROM saved_searches;

-- name: all_claims  the claims on files of everybody
SELECT id, pattern, because FROM claims;

-- name: all_import_jobs  imports of uploads
SELECT id, state FROM import_jobs;

-- name: forget_reaction  remove a reaction by its id
DELETE FROM reactions WHERE id = :id;

-- name: forget_saved_search  remove a saved search by its id
DELETE FROM saved_searches WHERE id = :id;

-- name: forget_claim  remove a claim by its id
DELETE FROM claims WHERE id = :id;

-- name: forget_import_job  remove an import by its id
DELETE FROM import_jobs WHERE id = :id;
