-- name: lock_schema  until the end of the transaction
SELECT pg_advisory_xact_lock(hashtext(:name));

-- name: create_migrations  the table with the numbers of the migrations that were run
CREATE TABLE IF NOT EXISTS migrations (number bigint PRIMARY KEY);

-- name: insert_migration  a migration was run
INSERT INTO migrations VALUES (:number);

-- name: schema_version  the number of the last migration, or 0
SELECT coalesce(max(number), 0) AS number FROM migrations;

-- name: has_migrations  does the table of migrations of a schema exist?
SELECT to_regclass(:name) IS NOT NULL AS is_so;

-- name: schemas_with_prefix  names of schemas
SELECT nspname FROM pg_namespace WHERE starts_with(nspname, :prefix);

-- name: existing_schemas  those of these schemas that exist
SELECT nspname FROM pg_namespace WHERE nspname = ANY(:names);

-- name: server_info  version, version number, encoding, and whether this user may create schemas
SELECT current_setting('server_version'), current_setting('server_version_num')::int, pg_encoding_to_char(encoding),
       has_database_privilege(datname, 'CREATE')
FROM pg_database WHERE datname = current_database();

-- name: memory_for_search  the size of the buffers and of the search indexes of all workspaces, in bytes
SELECT pg_size_bytes(current_setting('shared_buffers')),
       (SELECT coalesce(sum(relpages), 0) * current_setting('block_size')::bigint FROM pg_class
        WHERE relname IN ('passage_index', 'passage_index_words'));

-- name: is_old_collation  has the collation changed since the database was created?
SELECT datcollversion <> pg_database_collation_actual_version(oid)
FROM pg_database WHERE datname = current_database();

-- name: invalid_indexes  indexes that were never finished
SELECT c.relname AS name FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE NOT i.indisvalid AND c.relnamespace = current_schema()::regnamespace;

-- name: tables_with_references  the tables of a schema, each with the tables that it refers to
SELECT c.relname,
       ARRAY(SELECT confrelid::regclass::oid FROM pg_constraint
             WHERE conrelid = c.oid AND contype = 'f' AND confrelid <> c.oid),
       c.oid
FROM pg_class c
WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = :schema) AND c.relkind = 'r'
  AND c.relname <> 'migrations'
ORDER BY c.relname;

-- name: identity_columns  columns whose values come from a sequence
SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = :schema AND is_identity = 'YES';

-- name: clear_totals  before they are counted again
DELETE FROM passage_totals;

-- name: recount_totals  the number of rows and tokens in the index
INSERT INTO passage_totals SELECT count(*), coalesce(sum(length), 0) FROM passage_index;

-- name: columns_with_statistics  columns of a table with planner statistics, and their types
SELECT a.attname, format_type(a.atttypid, a.atttypmod)
FROM pg_attribute a JOIN pg_stats s ON s.attname = a.attname
WHERE a.attrelid = CAST(:name AS regclass) AND s.schemaname = :schema AND s.tablename = :table;

-- name: may_checkpoint  may this user run CHECKPOINT?
SELECT pg_has_role('pg_checkpoint', 'USAGE');

-- name: stop_indexing  until the end of the transaction, no writer adds texts to the substring index
LOCK TABLE passage_trigrams IN SHARE MODE;

-- name: forget_runs  remove words that are in no text any more from the table of words
DELETE FROM passage_runs r WHERE NOT EXISTS (SELECT 1 FROM passage_trigrams WHERE trigrams @> ARRAY[r.number]);
