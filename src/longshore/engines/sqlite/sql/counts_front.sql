-- counts_front: of a queue's type, how many jobs are ready, up to a limit; the oldest, and the
-- lowest number of these.
-- :queue :type :limit
-- Reads longshore_ready from the front of the type.
select count(*), min(run_at), min(seq)
  from (select run_at, seq from longshore_ready
         where queue = :queue and type = :type
         order by rank, seq
         limit :limit)
