-- What a stronger model makes of a passage: a byte for each number. The model inside the package needs none.
CREATE TABLE vectors (
    passage_id bigint PRIMARY KEY REFERENCES passages (id) ON DELETE CASCADE,
    model text NOT NULL,
    vector bytea NOT NULL
);
