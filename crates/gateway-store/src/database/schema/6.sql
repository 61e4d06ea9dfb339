-- The models that a project or a key may use, as JSON; null: all.
ALTER TABLE projects ADD COLUMN model_permissions TEXT;
ALTER TABLE keys ADD COLUMN model_permissions TEXT;
