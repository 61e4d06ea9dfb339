CREATE TRIGGER audit_logs_stay BEFORE UPDATE ON audit_logs
BEGIN SELECT RAISE(ABORT, 'the audit log can only be added to'); END;
CREATE TRIGGER audit_logs_remain BEFORE DELETE ON audit_logs
BEGIN SELECT RAISE(ABORT, 'the audit log can only be added to'); END;
