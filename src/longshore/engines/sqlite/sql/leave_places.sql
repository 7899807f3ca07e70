-- leave_places: what was claimed of a fair queue is no longer ready.
-- :queue :jobs  JSON array of [type, rank, seq]
delete from longshore_ready where (queue, type, rank, seq) in (
    select :queue, p.value ->> 0, p.value ->> 1, p.value ->> 2 from json_each(:jobs) p)
