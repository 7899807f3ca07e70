-- sizes: how large the payloads of these jobs are, and their ranks, in their order.
-- :seqs  JSON array
select json_group_array(json_array(length(j.payload), j.rank))
  from json_each(:seqs) s cross join longshore_job j on j.seq = s.value
