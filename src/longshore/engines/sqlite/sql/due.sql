-- due: the jobs a promote will make ready, as one JSON text.
-- :now :limit
-- reads longshore_job_due.
select json_group_array(json_array(seq, hex(id), queue, type, tenant))
  from (select seq, id, queue, type, tenant
          from longshore_job indexed by longshore_job_due
         where state = 'scheduled' and run_at <= :now
         order by run_at, seq
         limit :limit)
