-- How answers ended, what was written to caches, and searches of the server.
ALTER TABLE ledger ADD COLUMN ended BIGINT NOT NULL DEFAULT 0;
ALTER TABLE ledger ADD COLUMN cache_write_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE ledger ADD COLUMN cache_write_1h_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE ledger ADD COLUMN web_searches BIGINT NOT NULL DEFAULT 0;
