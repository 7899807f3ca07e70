-- migration_rest: the statement that removes an index which was left half built; none if there
-- is none. name
select format('drop index concurrently %s', i.indexrelid::regclass) as statement
  from pg_catalog.pg_index i
 where i.indexrelid = to_regclass('longshore.' || quote_ident($1)) and not i.indisvalid
