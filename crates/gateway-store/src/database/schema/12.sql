-- Keys that all nodes of this store share. Each is made once, by the first node that needs it.
CREATE TABLE shared_keys (
    name {id} PRIMARY KEY,
    secret {bytes} NOT NULL
);
