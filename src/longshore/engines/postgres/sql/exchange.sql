-- Exchange: what a session claims, starts and settles in one call.

-- exchange: settle what finished and claim what is next, in one call.
select * from longshore.exchange(
    $1, $2, $3, $4, $5::text::bigint[], $6, $7, $8, $9, $10, $11::text::bigint[],
    $12::text::smallint[], $13::text::bytea[], $14::text::smallint[],
    $15::text::bigint[], $16::text::smallint[], $17::text::smallint[],
    $18::text::bytea[], $19::text::bigint[], $20::text::integer[], $21::text::integer[],
    $22::text::integer[], $23::text::integer[], $24::text::integer[],
    $25::text::integer[], $26::text::integer[], $27::text::bigint[],
    $28::text::bigint[], $29, $30::text::bigint[], $31::text::integer[],
    $32::text::smallint[], $33::text::bigint[], $34::text::bigint[],
    $35::text::bigint[], $36::text::bigint[], $37, $38::text::text[], $39::text::text[],
    $40::text::text[], $41::text::bigint[], $42, $43, $44, $45)

-- pick_up: an exchange that only claims, of a session that was woken.
-- token, number, clock, queues, types, want, era
select * from longshore.pick_up($1, $2, $3, $4, $5, $6, $7)

-- check_in: go on in this era. token, clock, the last era that the session knows
select era, last from longshore.check_in($1, $2, $3)

-- claim_add: hold a span. token, number, part, segment, lo, hi, size, weight, mask, rank, run_at,
-- delivery, attempt, failures, crashes, lapses
insert into longshore.claim
    (token, number, part, segment, lo, hi, size, weight, mask, rank, run_at, delivery, attempt,
     failures, crashes, lapses)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)

-- claims_of: the spans a session holds, with what their jobs have of their own. token
select c.number, c.part, c.segment, c.lo, c.hi, c.size, c.weight, c.mask, c.rank, c.run_at,
       c.delivery, c.attempt, c.failures, c.crashes, c.lapses, s.queue, s.type, s.tenant,
       s.max_attempts, substring(s.ids from c.lo * 16 + 1 for (c.hi - c.lo) * 16) as ids,
       s.types[c.lo + 1 : c.hi] as types, s.tenants[c.lo + 1 : c.hi] as tenants,
       s.attributes::text as attributes
  from longshore.claim c join longshore.segment s using (segment)
 where c.token = $1
 order by c.number, c.part

-- exchanged_add: an exchange was the session's last; it refused nothing. token, number
with gone as (delete from longshore.exchanged where token = $1 and number < $2)
insert into longshore.exchanged (token, number, refused) values ($1, $2, '[]')
on conflict do nothing

-- journal_of: what a session told of spans it still holds. token
select entry, at, handles, deliveries, kinds, started, finished from longshore.journal
 where token = $1 order by entry

-- requests: who of a session's jobs was asked to stop. token
select handle, delivery, reason from longshore.request where token = $1 order by handle

-- request_add: ask the holder of a running job to stop it. The first reason stands.
-- token, handle, delivery, reason
insert into longshore.request (token, handle, delivery, reason) values ($1, $2, $3, $4)
on conflict do nothing

-- settle: carry out a plan; the caller holds the session's row.
select longshore.settle(
    $1, $2, $3, $4::text::bigint[], $5::text::smallint[], $6::text::bytea[],
    $7::text::smallint[], $8::text::bigint[], $9::text::smallint[],
    $10::text::smallint[], $11::text::bytea[], $12::text::bigint[],
    $13::text::integer[], $14::text::integer[], $15::text::integer[],
    $16::text::integer[], $17::text::integer[], $18::text::integer[],
    $19::text::integer[], $20::text::bigint[], $21::text::bigint[], $22,
    $23::text::bigint[], $24::text::integer[], $25::text::smallint[],
    $26::text::bigint[], $27::text::bigint[], $28::text::bigint[], $29::text::bigint[],
    $30, $31::text::text[], $32::text::text[], $33::text::text[], $34::text::bigint[],
    $35, $36)

-- tell_running: count anew what a session holds of queues with a limit. token
select longshore.tell_running(
    $1, array(select f.queue from longshore.flow f where f.settings ? 'max_running'), '{}', '{}')

-- running_delete: count anew who holds how much of a queue, from which nobody claims. queue
delete from longshore.running where queue = $1

-- lend: the limits of a transaction that a handler keeps open.
set local statement_timeout = '10min';
set local idle_in_transaction_session_timeout = '10min'

-- call_holders: tell sessions that a job of theirs is to be cancelled. tokens
select pg_notify('longshore', token::text) from unnest($1::bigint[]) as t (token) group by token

-- complete: end a job in its handler's transaction. token, clock, entry of the journal, handle,
-- delivery, start, result, events, era
select longshore.complete($1, $2, $3, $4, $5, $6, $7, $8, $9)

-- completed: whether a completion was committed. token, entry of the journal
select exists (select from longshore.journal where token = $1 and entry = $2)
