-- counts_heads: of a queue's type, the oldest of the first ready jobs behind each of these ranks,
-- and the lowest number of these.
-- :queue :type :ranks  JSON array
-- One seek in longshore_ready per rank.
select min(head ->> 0), min(head ->> 1)
  from (select (select json_array(run_at, seq) from longshore_ready
                 where queue = :queue and type = :type and rank >= base.value
                 order by rank, seq
                 limit 1) as head
          from json_each(:ranks) base)
