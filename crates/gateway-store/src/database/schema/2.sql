-- What was true once and must be remembered, such as which store of limits was used.
CREATE TABLE facts (
    name {id} PRIMARY KEY,
    at BIGINT NOT NULL
);
