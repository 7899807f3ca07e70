-- sizes: how large the payloads of these jobs are, in their order.
-- :seqs  JSON array
select json_group_array(length(j.payload))
  from json_each(:seqs) s cross join longshore_job j on j.seq = s.value
