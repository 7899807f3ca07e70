-- job_times: those of these ids that are jobs already, as [number, tenant, [arrived, due]].
-- The line of parameters is repeated once per job. A row of zeros matches no job.
-- number, id
-- The view is asked for one job at a time: joined, it would be made of all jobs first.
select json_group_array(json_array(
           s.column1, j.tenant, json_array(j.created_at, (
               select v.run_at from longshore_jobs v where v.seq = j.seq))))
  from (values
    (?, ?)
       ) as s
 cross join longshore_job j on j.id = s.column2
