-- Answers that come after their requests, until their ends are seen. `held` counts as spend of the month until then,
-- `tokens` were counted by the limits of tokens at the request. All moments
-- are in microseconds; `poll_at` is also the end of the claim of a node that asks. Prices are as in the configuration, null
-- without one.
CREATE TABLE later_answers (
    id {id} PRIMARY KEY,
    kind TEXT NOT NULL,
    request TEXT NOT NULL,
    organization {id} NOT NULL,
    project {id} NOT NULL,
    api_key {id} NOT NULL,
    model {id} NOT NULL,
    upstream TEXT NOT NULL,
    region TEXT,
    endpoint BIGINT NOT NULL,
    batch BIGINT NOT NULL,
    month BIGINT NOT NULL,
    held BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    long_context BIGINT NOT NULL,
    input_estimate BIGINT NOT NULL,
    most_output BIGINT NOT NULL,
    most_reported BIGINT NOT NULL,
    price_input BIGINT,
    price_cached_input BIGINT,
    price_cache_write BIGINT,
    price_cache_write_1h BIGINT,
    price_output BIGINT,
    price_web_search BIGINT,
    seen_eighths BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    poll_at BIGINT NOT NULL,
    polls BIGINT NOT NULL
);
CREATE INDEX later_answers_due ON later_answers (poll_at);
CREATE INDEX later_answers_by_organization ON later_answers (organization, month);
