-- unique_holder: the jobs that keep others with their unique keys out, as [number, id].
-- The line of parameters is repeated once per key.
-- number, tenant, key
select json_group_array(json_array(s.column1, hex(j.id)))
  from (values
    (?, ?, ?)
       ) as s
 cross join longshore_unique u on u.tenant = s.column2 and u.key = s.column3
 cross join longshore_job j on j.id = u.id
 where not exists (select 1 from longshore_finished f where f.seq = j.seq)
   and (j.unique_until = 'finished' or not exists (
        select 1 from longshore_held h where h.seq = j.seq and h.token in (
               select token from longshore_session where closed_at is null)))
