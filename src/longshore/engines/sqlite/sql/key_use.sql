-- key_use: note the use of keys whose last one was long ago, or is yet to come by this clock.
-- :ids :now :before
update longshore_key set last_used_at = :now
 where id in (select value from json_each(:ids))
   and (last_used_at is null or last_used_at <= :before or last_used_at > :now)
