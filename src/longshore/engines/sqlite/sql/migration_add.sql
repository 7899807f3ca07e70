-- migration_add: remember one that is applied.
-- :number :name :checksum :works_with :now
insert or replace into longshore_migration (number, name, checksum, works_with, applied_at)
values (:number, :name, :checksum, :works_with, :now)
