-- claim: hand the first jobs of some types to a session. A new delivery per claim: whoever
-- held a job before can no longer settle it.
-- :token :number :queue :types  JSON array, :rank :seq  of the last one
-- reads the front of each type in longshore_ready. Runs before claim_ready.
insert into longshore_held
    (token, seq, claimed_by, run_at, delivery, attempt, failures, crashes, lapses)
select :token, seq, :number, run_at, delivery + 1, attempt, failures, crashes, lapses
  from longshore_ready
 where queue = :queue and type in (select value from json_each(:types))
   and (rank, seq) <= (:rank, :seq)
