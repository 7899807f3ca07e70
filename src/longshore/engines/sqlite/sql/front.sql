-- front: the beginning of a claim's statement, which goes on with claimable. One row: which
-- jobs, when each was due, what became of the earlier deliveries of those that had any, the
-- last one's rank and the weight of all.
select json_group_array(seq), json_group_array(run_at),
       json_group_array(json_array(
           seq, json_array(delivery + 1, attempt, failures, crashes, lapses)
       )) filter (where delivery > 0),
       max(rank), sum(size)
  from
