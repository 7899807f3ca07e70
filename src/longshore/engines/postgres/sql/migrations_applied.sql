-- migrations_applied: what the store remembers, and whether it takes anything new.
-- One row at least, also before the first migration.
select number, checksum, current_setting('transaction_read_only')::boolean as is_read_only
  from (values (1)) as always left join longshore.migration on true
