-- pick_up: an exchange that only claims, of a session that was woken.
-- token, number, clock, queues, types, want, era
select * from longshore.pick_up($1, $2, $3, $4, $5, $6, $7)
