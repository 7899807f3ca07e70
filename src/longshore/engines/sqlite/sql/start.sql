-- start: record that handlers have begun; each start counts once.
-- :token :now :references  JSON array of [handle, delivery]
-- returns nothing; the row count says how many starts were news.
update longshore_job
   set started_at = :now, attempt = attempt + 1
 where seq in (select value ->> 0 from json_each(:references))
   and token = :token
   and state = 'running'
   and started_at is null
   and exists (select 1 from json_each(:references)
                where value ->> 0 = seq and value ->> 1 = delivery)
