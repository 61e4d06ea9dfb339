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
