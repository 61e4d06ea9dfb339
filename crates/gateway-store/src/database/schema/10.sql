-- The organization of a key's project, and the text by which the key is searched: name, id and redacted text in lower
-- case. Null in keys of nodes of an earlier version, until a node of this version adds them.
ALTER TABLE keys ADD COLUMN organization {id};
ALTER TABLE keys ADD COLUMN search_text {id};
CREATE INDEX keys_by_text ON keys (organization, id, project, search_text);
CREATE INDEX keys_without_text ON keys (id) WHERE search_text IS NULL;
