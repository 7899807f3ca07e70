-- losses: how many workers vanished with jobs, and with how many jobs. names of both totals
select coalesce((select t.number from longshore.total t where t.name = $1), 0) as workers,
       coalesce((select t.number from longshore.total t where t.name = $2), 0) as jobs
