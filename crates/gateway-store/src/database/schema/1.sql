CREATE TABLE organizations (
    id {id} PRIMARY KEY,
    name TEXT NOT NULL,
    tier_set BIGINT NOT NULL,
    tier_paid BIGINT NOT NULL,
    paid_cents BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    retention TEXT,
    hard_limit_cents BIGINT,
    deleted_at BIGINT
);

CREATE TABLE payments (
    id {id} PRIMARY KEY,
    organization {id} NOT NULL,
    amount_cents BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX payments_by_organization ON payments (organization, id);

CREATE TABLE projects (
    id {id} PRIMARY KEY,
    organization {id} NOT NULL,
    name TEXT NOT NULL,
    geography TEXT,
    created_at BIGINT NOT NULL,
    archived_at BIGINT,
    hard_limit_cents BIGINT
);
CREATE INDEX projects_by_organization ON projects (organization, id);

CREATE TABLE project_limits (
    project {id} NOT NULL,
    model {id} NOT NULL,
    requests_minute BIGINT,
    requests_day BIGINT,
    tokens_minute BIGINT,
    images_minute BIGINT,
    audio_minutes_minute BIGINT,
    audio_megabytes_minute BIGINT,
    batch_tokens_day BIGINT,
    PRIMARY KEY (project, model)
);

-- Of an organization or a project: `scope` is its id.
CREATE TABLE spend_alerts (
    id {id} PRIMARY KEY,
    scope {id} NOT NULL,
    threshold_cents BIGINT NOT NULL,
    channel TEXT NOT NULL
);
CREATE INDEX spend_alerts_by_scope ON spend_alerts (scope, id);

CREATE TABLE service_accounts (
    id {id} PRIMARY KEY,
    project {id} NOT NULL,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX service_accounts_by_project ON service_accounts (project, id);

-- `expires_at` is in microseconds, all other moments of this file are seconds unless said.
CREATE TABLE keys (
    hash {bytes} PRIMARY KEY,
    id {id} NOT NULL UNIQUE,
    project {id} NOT NULL,
    service_account {id},
    name TEXT NOT NULL,
    redacted TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    last_used_at BIGINT
);
CREATE INDEX keys_by_project ON keys (project, id);
CREATE INDEX keys_by_service_account ON keys (service_account, id) WHERE service_account IS NOT NULL;

CREATE TABLE admin_keys (
    hash {bytes} PRIMARY KEY,
    id {id} NOT NULL UNIQUE,
    organization {id} NOT NULL,
    name TEXT NOT NULL,
    redacted TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    last_used_at BIGINT
);
CREATE INDEX admin_keys_by_organization ON admin_keys (organization, id);

CREATE TABLE responses (
    id {id} PRIMARY KEY,
    project {id} NOT NULL,
    upstream TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX responses_by_age ON responses (created_at);

CREATE TABLE owned_objects (
    id {id} PRIMARY KEY,
    project {id} NOT NULL,
    upstream TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE files (
    id {id} PRIMARY KEY,
    project {id} NOT NULL,
    purpose TEXT NOT NULL,
    filename TEXT NOT NULL,
    bytes BIGINT NOT NULL,
    complete BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT
);
CREATE INDEX files_by_project ON files (project, id);
CREATE INDEX files_by_expiry ON files (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE file_chunks (
    file {id} NOT NULL,
    start BIGINT NOT NULL,
    data {bytes} NOT NULL,
    PRIMARY KEY (file, start)
);

CREATE TABLE batches (
    id {id} PRIMARY KEY,
    organization {id} NOT NULL,
    project {id} NOT NULL,
    api_key {id} NOT NULL,
    endpoint TEXT NOT NULL,
    model TEXT NOT NULL,
    input_file {id} NOT NULL,
    output_file {id},
    error_file {id},
    status TEXT NOT NULL,
    metadata TEXT,
    errors TEXT,
    queued_tokens BIGINT NOT NULL,
    total BIGINT NOT NULL,
    completed BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    in_progress_at BIGINT,
    finalizing_at BIGINT,
    cancelling_at BIGINT,
    ended_at BIGINT,
    lease_owner TEXT,
    lease_until BIGINT NOT NULL
);
CREATE INDEX batches_by_project ON batches (project, id);
CREATE INDEX batches_open ON batches (id) WHERE ended_at IS NULL;

-- `state`: 0 waits, 1 runs under a lease, 2 is done. `lease_until` is in microseconds.
CREATE TABLE batch_lines (
    batch {id} NOT NULL,
    line BIGINT NOT NULL,
    custom_id TEXT NOT NULL,
    body TEXT NOT NULL,
    tokens BIGINT NOT NULL,
    state BIGINT NOT NULL,
    lease_owner TEXT,
    lease_until BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    result TEXT,
    PRIMARY KEY (batch, line)
);
CREATE INDEX batch_lines_open ON batch_lines (batch, line) WHERE state < 2;

-- What caches must forget. The counter's row is locked by whoever writes a change until it commits,
-- so that sequence numbers have no gaps and appear in their order.
CREATE TABLE change_counter (
    value BIGINT NOT NULL
);
INSERT INTO change_counter (value) VALUES (0);

CREATE TABLE changes (
    sequence BIGINT PRIMARY KEY,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    at BIGINT NOT NULL
);

-- `at` is in microseconds; `requests` is 1, and more where rows were folded.
CREATE TABLE ledger (
    id {serial},
    at BIGINT NOT NULL,
    organization {id} NOT NULL,
    project {id} NOT NULL,
    api_key {id} NOT NULL,
    request TEXT NOT NULL,
    model {id} NOT NULL,
    endpoint BIGINT NOT NULL,
    status BIGINT NOT NULL,
    batch BIGINT NOT NULL,
    requests BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    cached_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    images BIGINT NOT NULL,
    audio_milliseconds BIGINT NOT NULL,
    cost BIGINT NOT NULL
);
CREATE INDEX ledger_by_organization ON ledger (organization, at);

-- Each writer's last batch: a batch whose commit was not answered is not written twice.
CREATE TABLE ledger_writers (
    writer {id} PRIMARY KEY,
    sequence BIGINT NOT NULL,
    at BIGINT NOT NULL
);

-- `month` is year * 12 + month - 1; `project` is empty in the organization's own sum.
CREATE TABLE spend_months (
    organization {id} NOT NULL,
    month BIGINT NOT NULL,
    project {id} NOT NULL,
    cost BIGINT NOT NULL,
    requests BIGINT NOT NULL,
    PRIMARY KEY (organization, month, project)
);
