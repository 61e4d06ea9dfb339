CREATE FUNCTION refuse_change_of_audit_logs() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'the audit log can only be added to'; END $$;
CREATE TRIGGER audit_logs_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_logs
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_audit_logs();
