-- park: let jobs wait behind others of their line.
-- :jobs  JSON array of [queue, tenant, key, place, seq, run_at, delivery, attempt]
insert into longshore_parked (queue, tenant, key, place, seq, run_at, delivery, attempt)
select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
       value ->> 6, value ->> 7
  from json_each(:jobs)
