-- migration_announce: have code below a level leave, and let none of it in. It lapses by itself,
-- in case whoever said so is gone.
-- :number :name :checksum :works_with :until
insert or replace into longshore_migration (number, name, checksum, works_with, announced_until)
values (:number, :name, :checksum, :works_with, :until)
