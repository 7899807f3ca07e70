-- migrations_applied: what the store remembers.
-- :now
select number, name, checksum, works_with, applied_at is not null
  from longshore_migration
 where applied_at is not null or announced_until > :now
