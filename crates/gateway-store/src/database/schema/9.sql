-- The backend of an upstream that has an object, or that answered; empty: the first one.
ALTER TABLE responses ADD COLUMN backend {id} NOT NULL DEFAULT '';
ALTER TABLE owned_objects ADD COLUMN backend {id} NOT NULL DEFAULT '';
ALTER TABLE later_answers ADD COLUMN backend {id} NOT NULL DEFAULT '';
-- `upstream/backend`, or the name of both.
ALTER TABLE ledger ADD COLUMN backend {id} NOT NULL DEFAULT '';
