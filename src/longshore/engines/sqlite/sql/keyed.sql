-- keyed: those of the jobs that have an ordering key, as one JSON text.
-- :seqs  JSON array
select json_group_array(json_array(j.seq, hex(j.id), j.queue, j.tenant, j.ordering_key))
  from json_each(:seqs) s cross join longshore_job j on j.seq = s.value
 where j.ordering_key is not null
