-- migration_home: which of the schema, the table of migrations and that of sessions are there.
-- "create if not exists" asks for privileges that whoever only looks does not need.
select to_regnamespace('longshore') is not null as has_schema,
       to_regclass('longshore.migration') is not null as has_table,
       to_regclass('longshore.session') is not null as has_sessions
