-- outbox_add: one row for all transitions of a transaction. clock, events
insert into longshore.outbox (at, body) values (longshore.clock($1), $2)
