-- due: the jobs a promote will make ready, as one JSON text.
-- :now :limit
-- reads longshore_scheduled_due.
select json_group_array(json_array(w.seq, hex(j.id), j.queue, j.type, j.tenant,
                                   j.ordering_key, j.trace))
  from (select seq from longshore_scheduled indexed by longshore_scheduled_due
         where run_at <= :now
         order by run_at, seq
         limit :limit) w
 cross join longshore_job j on j.seq = w.seq
