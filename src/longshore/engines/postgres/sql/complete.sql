-- complete: end a job in its handler's transaction. token, clock, entry of the journal, handle,
-- delivery, start, result, events, era
select longshore.complete($1, $2, $3, $4, $5, $6, $7, $8, $9)
