"""The statements of searches. They have parts that depend on the query."""

from __future__ import annotations

from palaver.store.engines.bm25 import K1, B

SAID_BETWEEN = "JOIN passages p ON p.id = passage_id AND p.created_at BETWEEN %(since)s AND %(until)s"
# The queries are bound in a CTE, because the generic plan of a prepared statement would be slower.
ASKED = """
WITH asked AS MATERIALIZED (SELECT {asked})"""
# GIN intersects the matches of several queries and skips what lies between. Within one query it compares more ids.
QUERY = "CAST(%({name})s AS tsquery) AS {name}"
MATCHES = "words @@ {name}"
# IS TRUE keeps the server from using the index: reading a match is faster than comparing it with long lists of ids.
CHECKED = "(words @@ checked) IS TRUE"
BEGINS = "starts_with(tokens, %({name})s)"
AND_CHECKED = f"AND {CHECKED}"
MATCHED = (
    ASKED
    + """,
matched AS MATERIALIZED (
    SELECT passage_id FROM passage_index, asked WHERE {matching}
    UNION ALL
    {long}
)"""
)
# Words are counted while the matches are read: reading them again would take longer.
COUNTED = (
    ASKED
    + """,
newest AS MATERIALIZED (
    SELECT passage_id, {counted} FROM (
        SELECT matched.* FROM (
            SELECT passage_id, length, tokens FROM passage_index, asked WHERE {matching}
            UNION ALL
            SELECT passage_id, length, tokens FROM {long} AS long JOIN passage_index USING (passage_id)
        ) AS matched {timed} ORDER BY passage_id DESC LIMIT %(cap)s
    ) AS latest
)"""
)
BEST = """
SELECT passage_id AS id, score, (SELECT count(*) FROM newest) AS matches FROM newest
ORDER BY score DESC, passage_id DESC LIMIT %(limit)s"""
EACH = """
SELECT newest.*, passage_id AS id, (SELECT count(*) FROM newest) AS matches FROM newest"""
# A byte order is enough to compare, and faster than the order of a language.
TIMES = """((octet_length(tokens) - octet_length(replace(tokens COLLATE "C", %(needle{number})s, '')))
           / %(bytes{number})s)"""
ONCE_AT_FIRST = "CAST(starts_with(tokens, %(needle{number})s) AS integer)"
POINTS = f"%(rarity{{number}})s * ({{times}} * {K1 + 1}) / ({{times}} + {K1} * ({1 - B} + {B} * length / %(usual)s))"
PHRASE_COUNT = """
SELECT {number} AS number, (
    SELECT count(*) FROM (
        SELECT 1 FROM passage_index,
            (SELECT CAST(%(phrase{number})s AS tsquery) AS q, CAST(%(checked{number})s AS tsquery) AS checked OFFSET 0)
            AS asked
        WHERE words @@ q {and_checked} LIMIT %(cap)s
    ) AS short
) + (SELECT count(*) FROM {long} AS long) AS passages"""
HAVING_SUBSTRING = "SELECT passage_id FROM passage_trigrams WHERE {conditions} LIMIT %(cap)s"
HAS_FRAGMENT = """(trigrams && CAST(%(words{place})s AS integer[])
                    OR trigrams @> CAST(%(grams{place})s AS integer[]))"""
NONE = "SELECT passage_id FROM passage_parts WHERE false"
# Not MATERIALIZED as above: counting ends at the limit.
COUNT_ALL = (
    ASKED
    + """
SELECT count(*) AS matches FROM (
    SELECT 1 FROM (SELECT passage_id FROM passage_index, asked WHERE {matching} UNION ALL {long}) AS matched {timed}
    LIMIT %(cap)s
) AS found"""
)
HAVING = (
    MATCHED
    + """
SELECT array_agg(passage_id) AS ids, count(*) AS matches FROM (
    SELECT passage_id FROM matched {timed} ORDER BY passage_id DESC LIMIT %(cap)s
) AS newest"""
)
RECALL = (
    MATCHED
    + """, newest AS MATERIALIZED (
    SELECT passage_id FROM matched {timed} ORDER BY passage_id DESC LIMIT %(most)s
), inside AS (
    SELECT passage_id, words FROM newest JOIN passage_index USING (passage_id)
    UNION ALL
    SELECT passage_id, words FROM newest JOIN passage_parts USING (passage_id)
)
SELECT passage_id AS id, (SELECT count(*) FROM newest) AS matches,
       max(ts_rank(CAST('{{0, 0, 0.5, 0.5}}' AS real[]), words, CAST(%(wanted)s AS tsquery), 1)) AS score
FROM inside GROUP BY passage_id ORDER BY score DESC, passage_id DESC LIMIT %(cap)s"""
)
