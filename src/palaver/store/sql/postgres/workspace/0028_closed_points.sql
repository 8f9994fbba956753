-- Open points of sessions that somebody closed. A point is a hash of its project and its words, so no text is kept here.
CREATE TABLE closed_points (
    point text PRIMARY KEY,
    closed_at bigint NOT NULL,
    closed_by text NOT NULL
);
