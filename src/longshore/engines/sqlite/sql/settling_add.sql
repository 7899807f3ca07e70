-- settling_add: lay out settlements. The last line is repeated once per settlement.
insert into longshore_settling
    (seq, delivery, state, run_at, charge, crash, lapse, started_at, finished_at, ended_at,
     outcome, result, failure, reason)
values
    (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
