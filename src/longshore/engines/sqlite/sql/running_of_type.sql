-- running_of_type: how many jobs of a type are held.
-- :type
select count(*) from longshore_held h cross join longshore_job j on j.seq = h.seq
 where j.type = :type
