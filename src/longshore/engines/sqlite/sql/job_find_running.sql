-- job_find_running: continues job_columns; like job_find for what workers hold, of which
-- there are few among millions.
-- :tenant :queue :type :tag :before :limit
-- reads longshore_job_held.
 where j.seq in (select seq from longshore_job indexed by longshore_job_held
                  where state = 'running')
   and j.seq < :before
   and (:tenant is null or j.tenant = :tenant)
   and (:queue is null or j.queue = :queue)
   and (:type is null or j.type = :type)
   and (:tag is null or exists (select 1 from json_each(j.tags) where value = :tag))
 order by j.seq desc
 limit :limit
