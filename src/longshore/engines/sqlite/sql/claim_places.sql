-- claim_places: hand these jobs of a fair queue to a session, each with its place.
-- :token :number :queue :jobs  JSON array of [type, rank, seq]
-- Runs before leave_ready.
insert into longshore_held
    (token, seq, claimed_by, run_at, delivery, attempt, failures, crashes, lapses, place)
select :token, r.seq, :number, r.run_at, r.delivery + 1, r.attempt, r.failures, r.crashes,
       r.lapses, p.key
  from json_each(:jobs) p
 cross join longshore_ready r on r.queue = :queue and r.type = p.value ->> 0
                             and r.rank = p.value ->> 1 and r.seq = p.value ->> 2
