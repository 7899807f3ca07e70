-- migration_announce: have code below a level leave, and let none of it in. It lapses by itself,
-- after longer than a migration may take, in case whoever said so is gone.
-- $1 number, $2 name, $3 checksum, $4 level of code that it works with
insert into longshore.migration as m (number, name, checksum, works_with, announced_until)
values ($1, $2, $3, $4, now() + interval '20 minutes')
    on conflict (number) do update
   set name = excluded.name, checksum = excluded.checksum, works_with = excluded.works_with,
       announced_until = excluded.announced_until
 where m.applied_at is null
