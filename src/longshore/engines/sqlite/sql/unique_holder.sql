-- unique_holder: the job that has a unique key, until when it keeps it, and how far it is.
-- :tenant :key
select j.id, j.unique_until,
       exists (select 1 from longshore_finished f where f.seq = j.seq),
       exists (select 1 from longshore_held h where h.seq = j.seq and h.token in (
                 select token from longshore_session where closed_at is null))
  from longshore_unique u
  join longshore_job j on j.id = u.id
 where u.tenant = :tenant and u.key = :key
