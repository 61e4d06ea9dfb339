-- What administrators did. `at` is in microseconds; `organization` is empty for acts that concern
-- the gateway as a whole. `value_before` and `value_after` are JSON objects without secrets.
CREATE TABLE audit_logs (
    id {id} PRIMARY KEY,
    at BIGINT NOT NULL,
    organization {id} NOT NULL,
    project {id},
    kind {id} NOT NULL,
    object {id} NOT NULL,
    actor_kind TEXT NOT NULL,
    actor {id} NOT NULL,
    address TEXT,
    user_agent TEXT,
    value_before TEXT,
    value_after TEXT
);
CREATE INDEX audit_logs_by_organization ON audit_logs (organization, id);
{audit_triggers}

-- Why a payment was corrected.
ALTER TABLE payments ADD COLUMN reason TEXT;

-- Alerts that were raised in a month, at a threshold in micro-dollars.
CREATE TABLE raised_alerts (
    alert {id} NOT NULL,
    month BIGINT NOT NULL,
    threshold BIGINT NOT NULL,
    PRIMARY KEY (alert, month, threshold)
);

-- Messages to a webhook until they are delivered. Moments are in microseconds; `due_at` is also the
-- end of the claim of a node that sends.
CREATE TABLE outbox (
    id {id} PRIMARY KEY,
    body TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    due_at BIGINT NOT NULL,
    attempts BIGINT NOT NULL
);
CREATE INDEX outbox_due ON outbox (due_at, id);
