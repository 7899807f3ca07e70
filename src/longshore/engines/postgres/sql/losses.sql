-- losses: how many workers vanished with jobs, and with how many jobs. names of both facts
select coalesce((select f.value::bigint from longshore.fact f where f.name = $1), 0) as workers,
       coalesce((select f.value::bigint from longshore.fact f where f.name = $2), 0) as jobs
