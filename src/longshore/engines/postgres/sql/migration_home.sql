-- migration_home: which of the schema and the table of migrations are there.
-- "create if not exists" asks for privileges that whoever only looks does not need.
select to_regnamespace('longshore') is not null as has_schema,
       to_regclass('longshore.migration') is not null as has_table
