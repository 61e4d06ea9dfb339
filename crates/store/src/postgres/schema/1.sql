-- A text column holds the escaped form of `value.rs`, and is compared byte by byte. Payloads are
-- bytes. `thread.pk` and an ordinal are the key of a turn; with a position, that of an item or of a
-- fragment of the history.

CREATE TABLE #node (
    id              TEXT COLLATE "C" PRIMARY KEY,
    holder          TEXT NOT NULL,
    version         TEXT NOT NULL,
    started_at      TIMESTAMPTZ NOT NULL,
    heartbeat_at    TIMESTAMPTZ NOT NULL,
    lease_until     TIMESTAMPTZ NOT NULL
);

CREATE TABLE #thread (
    pk              BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant          TEXT COLLATE "C" NOT NULL,
    id              TEXT COLLATE "C" NOT NULL,
    deleted         BOOLEAN NOT NULL DEFAULT FALSE,
    turn_count      BIGINT NOT NULL DEFAULT 0,
    -- The newest place, and the place after which the thread's own turns begin.
    last_ordinal    BIGINT NOT NULL DEFAULT 0,
    open_from       BIGINT NOT NULL DEFAULT 0,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    archived        BOOLEAN NOT NULL,
    source_kind     TEXT COLLATE "C" NOT NULL,
    model_provider  TEXT COLLATE "C" NOT NULL,
    cwd             TEXT COLLATE "C" NOT NULL,
    session_id      TEXT COLLATE "C" NOT NULL,
    name            TEXT,
    preview         TEXT NOT NULL,
    -- Case-folded name and preview.
    searched        TEXT COLLATE "C" NOT NULL,
    forked_from_id  TEXT,
    model           TEXT NOT NULL,
    cli_version     TEXT NOT NULL,
    source          BYTEA NOT NULL,
    git_info        BYTEA,
    settings        BYTEA NOT NULL,
    token_usage     BYTEA,
    extra           BYTEA,
    UNIQUE (tenant, id)
) WITH (fillfactor = 80);
CREATE INDEX thread_created ON #thread (tenant, archived, created_at, pk) WHERE turn_count > 0;
CREATE INDEX thread_updated ON #thread (tenant, archived, updated_at, pk) WHERE turn_count > 0;
-- An entry of an index has at most 2.7 kB, a path 4.
CREATE INDEX thread_cwd ON #thread (tenant, left(cwd, 200), archived, updated_at, pk)
    WHERE turn_count > 0;
CREATE INDEX thread_session ON #thread (tenant, session_id) WHERE turn_count > 0;

-- The row that each append changes, kept narrow: who may write to a thread, how often the owner
-- changed, and the number of the last append.
CREATE TABLE #lease (
    thread          BIGINT PRIMARY KEY,
    owner           TEXT COLLATE "C",
    epoch           BIGINT NOT NULL,
    last_seq        BIGINT NOT NULL,
    -- A random number of the commit that created the thread, which recognizes its own thread by it
    -- when the answer was lost.
    created_by      BIGINT NOT NULL,
    -- The same of the last append, which tells an owner its own append from that of another.
    appended_by     BIGINT NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX lease_owner ON #lease (owner) WHERE owner IS NOT NULL;

-- The turns that a thread shows: those of `source` after `first` up to `last`, and the history of
-- these places; of the place `last`, only positions below `last_history`. The segment of a thread's
-- own new turns ends at the largest number.
CREATE TABLE #segment (
    thread          BIGINT NOT NULL,
    first           BIGINT NOT NULL,
    last            BIGINT NOT NULL,
    source          BIGINT NOT NULL,
    last_history    BIGINT NOT NULL,
    PRIMARY KEY (thread, first)
);
CREATE INDEX segment_source ON #segment (source);

CREATE TABLE #turn (
    thread          BIGINT NOT NULL,
    ordinal         BIGINT NOT NULL,
    id              TEXT COLLATE "C" NOT NULL,
    status          BIGINT NOT NULL,  -- 0 in progress, 1 completed, 2 interrupted, 3 failed
    owner           TEXT COLLATE "C", -- who runs it; NULL once it has ended
    started_at_ms   BIGINT NOT NULL,
    completed_at_ms BIGINT,
    duration_ms     BIGINT,
    error           BYTEA,
    usage           BYTEA,
    indexed         BOOLEAN NOT NULL DEFAULT FALSE,
    PRIMARY KEY (thread, ordinal),
    UNIQUE (thread, id)
) WITH (fillfactor = 80);
CREATE INDEX turn_in_flight ON #turn (thread) WHERE status = 0;
CREATE INDEX turn_unindexed ON #turn (thread, ordinal) WHERE status <> 0 AND NOT indexed;

CREATE TABLE #item (
    thread          BIGINT NOT NULL,
    ordinal         BIGINT NOT NULL,
    position        BIGINT NOT NULL,
    id              TEXT COLLATE "C" NOT NULL,
    kind            TEXT NOT NULL,
    status          TEXT,
    payload         BYTEA NOT NULL,
    PRIMARY KEY (thread, ordinal, position),
    UNIQUE (thread, ordinal, id)
) WITH (fillfactor = 80);

CREATE TABLE #history (
    thread          BIGINT NOT NULL,
    ordinal         BIGINT NOT NULL,
    position        BIGINT NOT NULL,
    mark            BIGINT NOT NULL,
    anew            BOOLEAN NOT NULL,
    fragment        BYTEA NOT NULL,
    PRIMARY KEY (thread, ordinal, position)
);
CREATE INDEX history_anew ON #history (thread, ordinal, position) WHERE anew;

CREATE TABLE #turn_words (
    thread          BIGINT NOT NULL,
    ordinal         BIGINT NOT NULL,
    words           TSVECTOR NOT NULL,
    PRIMARY KEY (thread, ordinal)
);
CREATE INDEX turn_words_words ON #turn_words USING gin (words);

CREATE TABLE #queued (
    thread          BIGINT NOT NULL,
    id              TEXT COLLATE "C" NOT NULL,
    position        BIGINT NOT NULL,
    payload         BYTEA NOT NULL,
    PRIMARY KEY (thread, id)
);

CREATE TABLE #job (
    pk              BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    thread          BIGINT NOT NULL,
    id              TEXT NOT NULL,
    fingerprint     BYTEA NOT NULL,
    status          BIGINT NOT NULL,  -- 0 running, 1 completed, 2 failed, 3 cancelled
    created_at_ms   BIGINT NOT NULL,
    ended_at_ms     BIGINT,
    detail          BYTEA NOT NULL
);
CREATE INDEX job_thread ON #job (thread);

CREATE TABLE #job_item (
    job             BIGINT NOT NULL,
    number          BIGINT NOT NULL,
    id              TEXT NOT NULL,
    values_json     BYTEA NOT NULL,
    -- 0 pending, 1 running, 2 completed, 3 failed, 4 stopped, 5 cancelled
    status          BIGINT NOT NULL,
    worker          TEXT COLLATE "C",
    result          BYTEA,
    error           BYTEA,
    PRIMARY KEY (job, number)
);

-- Outlives its thread, without its name.
CREATE TABLE #usage (
    pk              BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant          TEXT COLLATE "C" NOT NULL,
    thread          TEXT COLLATE "C",
    turn            TEXT,
    at_ms           BIGINT NOT NULL,
    project         TEXT NOT NULL,
    provider        TEXT NOT NULL,
    model           TEXT NOT NULL,
    service_tier    TEXT,
    input           BIGINT,
    cached_input    BIGINT,
    cache_write     BIGINT,
    output          BIGINT,
    reasoning_output BIGINT,
    cost            BIGINT
);
CREATE INDEX usage_thread ON #usage (tenant, thread) WHERE thread IS NOT NULL;
CREATE INDEX usage_time ON #usage (tenant, at_ms);
