-- unique_put: take unique keys, from finished holders if there were any.
-- The line of parameters is repeated once per key.
-- tenant, key, id
insert into longshore_unique (tenant, key, id)
select s.column1, s.column2, s.column3 from (values
    (?, ?, ?)
       ) as s
 where s.column1 <> 0
on conflict (tenant, key) do update set id = excluded.id
