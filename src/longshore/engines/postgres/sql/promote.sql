-- Promote: what is due becomes ready.

-- promote: make due jobs ready; the spans that were. clock, most jobs
select queue, type, tenant, lo, hi, size, mask, ids, types, tenants, attributes
  from longshore.promote_whole($1, $2)

-- promoted: tell of it, and wake who waits. clock, events
with told as (insert into longshore.outbox (at, body) values (longshore.clock($1), $2))
select pg_notify('longshore', '')

-- next_due: when the next job is due or the next line opens, and the time now. clock
select now, due from longshore.next_due($1)

-- open_lines: let in what rates of keys let in by now; how many jobs. clock, most lines
select longshore.open_lines($1, $2)
