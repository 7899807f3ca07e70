-- unique_holder: the job that holds a unique key, finished or not.
-- :tenant :key
select j.id, j.state, j.unique_until
  from longshore_unique u
  join longshore_job j on j.id = u.id
 where u.tenant = :tenant and u.key = :key
