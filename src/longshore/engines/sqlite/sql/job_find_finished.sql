-- job_find_finished: continues job_columns; like job_find for one finished state, of which
-- there may be few among millions.
-- :tenant :queue :type :state :tag :before :limit
-- reads longshore_job_finished.
 where j.seq in (select seq from longshore_job indexed by longshore_job_finished
                  where state = :state and finished_at is not null)
   and j.seq < :before
   and (:tenant is null or j.tenant = :tenant)
   and (:queue is null or j.queue = :queue)
   and (:type is null or j.type = :type)
   and (:tag is null or exists (select 1 from json_each(j.tags) where value = :tag))
 order by j.seq desc
 limit :limit
