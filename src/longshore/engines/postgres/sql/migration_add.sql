-- migration_add: remember one.
-- $1 number, $2 name, $3 checksum
insert into longshore.migration (number, name, checksum) values ($1, $2, $3)
