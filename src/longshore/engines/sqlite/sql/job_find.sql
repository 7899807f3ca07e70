-- job_find: ends what in_… began; newest first, from below :before.
-- :tenant :queue :type :tag :before :limit
   and j.seq < :before
   and (:tenant is null or j.tenant = :tenant)
   and (:queue is null or j.queue = :queue)
   and (:type is null or j.type = :type)
   and (:tag is null or (json_valid(j.tags)
        and exists (select 1 from json_each(j.tags) where value = :tag)))
 order by j.seq desc
 limit :limit
