-- parked_next: the first jobs of a line, as one JSON text.
-- :queue :tenant :key :limit :number  which comes first in the answer
select json_group_array(json_array(:number, p.seq, hex(j.id), p.run_at, p.delivery, p.attempt))
  from (select * from longshore_parked
         where queue = :queue and tenant = :tenant and key = :key
         order by place limit :limit) p
 cross join longshore_job j on j.seq = p.seq
