-- migrations_applied: what the store remembers.
select number, checksum from longshore_migration
