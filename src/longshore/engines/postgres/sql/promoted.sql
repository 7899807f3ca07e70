-- promoted: tell of it, and wake who waits. clock, events
with told as (insert into longshore.outbox (at, body) values (longshore.clock($1), $2))
select pg_notify('longshore', '')
