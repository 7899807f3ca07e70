-- settling_drop: leave out what is stale.
-- :stale  JSON array of [handle, delivery]
delete from longshore_settling
 where (seq, delivery) in (select value ->> 0, value ->> 1 from json_each(:stale))
