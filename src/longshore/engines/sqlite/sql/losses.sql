-- losses: how many workers vanished with jobs, and with how many jobs.
-- :workers :jobs  the names of these facts
select coalesce((select cast(value as integer) from longshore_fact where name = :workers), 0),
       coalesce((select cast(value as integer) from longshore_fact where name = :jobs), 0)
