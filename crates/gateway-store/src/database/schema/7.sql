-- Prices of answers that come later and what they depend on, as JSON. The columns of prices of tokens remain for nodes of
-- an earlier version.
ALTER TABLE later_answers ADD COLUMN price TEXT;
ALTER TABLE later_answers ADD COLUMN asked TEXT;
