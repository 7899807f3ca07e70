-- joining_again: jobs with ordering keys that were replayed or are due, as one JSON text, in the
-- order of :seqs. Those that wait for a retry have kept their place in their line.
-- :seqs  JSON array, :now  null: ready since the time they waited for
select json_group_array(json_array(j.seq, hex(j.id), j.queue, j.tenant, j.ordering_key,
                                   coalesce(:now, w.run_at), coalesce(f.delivery, 0),
                                   coalesce(f.attempt, 0)))
  from json_each(:seqs) s
 cross join longshore_job j on j.seq = s.value
  left join longshore_scheduled w on w.seq = j.seq
  left join longshore_finished f on f.seq = j.seq
 where j.ordering_key is not null and coalesce(w.delivery, 0) = 0
