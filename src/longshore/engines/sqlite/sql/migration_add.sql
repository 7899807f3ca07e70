-- migration_add: remember one.
-- :number :name :checksum :now
insert into longshore_migration (number, name, checksum, applied_at)
values (:number, :name, :checksum, :now)
