-- What a batch took, how long its files stay, when it began to expire, and whether its lines are
-- still kept.
ALTER TABLE batches ADD COLUMN output_expires_after BIGINT;
ALTER TABLE batches ADD COLUMN expiring_at BIGINT;
ALTER TABLE batches ADD COLUMN input_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE batches ADD COLUMN cached_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE batches ADD COLUMN output_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE batches ADD COLUMN reasoning_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE batches ADD COLUMN lines_kept BIGINT NOT NULL DEFAULT 1;
CREATE INDEX batches_to_tidy ON batches (id) WHERE ended_at IS NOT NULL AND lines_kept = 1;
CREATE INDEX batches_by_day ON batches (project, created_at);
CREATE INDEX files_incomplete ON files (created_at) WHERE complete = 0;
CREATE INDEX owned_objects_by_project ON owned_objects (project, id);
