-- Responses that the gateway keeps itself, because the server of their model keeps none. A conversation is a first
-- response and all that continue it: it expires as a whole, so that no response outlives what it continues.
CREATE TABLE kept_responses (
    id {id} PRIMARY KEY,
    project {id} NOT NULL,
    conversation {id} NOT NULL,
    previous {id},
    -- The number of responses before it, and the bytes of all of them with its own.
    place BIGINT NOT NULL,
    context_bytes BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    -- The items of its request as a JSON array, and the response as JSON.
    input {bytes} NOT NULL,
    output {bytes} NOT NULL
);
CREATE INDEX kept_responses_by_conversation ON kept_responses (conversation);
CREATE TABLE kept_conversations (
    id {id} PRIMARY KEY,
    project {id} NOT NULL,
    bytes BIGINT NOT NULL,
    used_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX kept_conversations_by_use ON kept_conversations (project, used_at);
CREATE INDEX kept_conversations_by_expiry ON kept_conversations (expires_at);
-- The bytes of each project's conversations.
CREATE TABLE kept_bytes (
    project {id} PRIMARY KEY,
    bytes BIGINT NOT NULL
);
