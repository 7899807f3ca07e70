-- count_add: add what a transaction changed.
-- :changes  JSON array of [tenant, queue, state, jobs]
insert into longshore_count (tenant, queue, state, jobs)
select value ->> 0, value ->> 1, value ->> 2, value ->> 3 from json_each(:changes) where true
on conflict (tenant, queue, state) do update set jobs = jobs + excluded.jobs
