-- migration_add: remember one that is applied.
-- $1 number, $2 name, $3 checksum, $4 level of code that it works with
insert into longshore.migration as m (number, name, checksum, works_with, applied_at)
values ($1, $2, $3, $4, now())
    on conflict (number) do update
   set name = excluded.name, checksum = excluded.checksum, works_with = excluded.works_with,
       announced_until = null, applied_at = now()
