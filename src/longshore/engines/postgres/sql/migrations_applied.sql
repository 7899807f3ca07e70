-- migrations_applied: what the store remembers, and whether it takes anything new.
-- One row at least, also before the first migration.
select m.number, m.name, m.checksum, m.works_with, m.applied_at is not null as is_applied,
       current_setting('transaction_read_only')::boolean as is_read_only
  from (values (1)) as always
  left join longshore.migration m on m.applied_at is not null or m.announced_until > now()
