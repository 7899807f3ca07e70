-- losses: how many workers vanished with jobs, and with how many jobs.
-- :workers :jobs  the names of these totals
select coalesce((select number from longshore_total where name = :workers), 0),
       coalesce((select number from longshore_total where name = :jobs), 0)
