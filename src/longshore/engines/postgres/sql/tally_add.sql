-- tally_add: so many jobs more are finished. queues, tenants, states, jobs
insert into longshore.tally values ($1, $2, $3, $4)
