-- Outbox: events, and who reads them.

-- consumer_advance: move a cursor on; false when it is another's. clock, name, token, position
select longshore.advance($1, $2, $3, $4) as is_held

-- consumer_delete: forget one. name
delete from longshore.consumer where name = $1 returning name

-- consumer_leave: let another take the cursor at once. name, token
update longshore.consumer set holder = '', leased_until = 0 where name = $1 and token = $2

-- consumer_take: take a consumer's cursor; nothing while another has it. clock, name, holder, lease
select token, position, gone_at from longshore.take_cursor($1, $2, $3, $4)

-- consumer_unread: batches behind a position, for the holder of a cursor; a row of nulls for anyone
-- else. clock, name, token, position, limit
select place, told_at, groups from longshore.unread($1, $2, $3, $4, $5)

-- consumers: how all of them stand. clock
select name, position, behind, waits_since, holder, seen_at, gone_at from longshore.consumers($1)

-- consumers_gone: wait no longer for those that nobody has read for since a moment. now, moment
update longshore.consumer set gone_at = $1 where gone_at is null and seen_at <= $2

-- outbox_add: one row for all transitions of a transaction. clock, events
insert into longshore.outbox (at, body) values (longshore.clock($1), $2)

-- outbox_after: batches behind a position, in order. position, limit
select place, told_at, groups from longshore.events($1, $2)

-- outbox_fresh: the first and the last row that have no position; begins the era if need be.
select (select min(o.number) from longshore.outbox o where o.position is null) as low,
       (select max(o.number) from longshore.outbox o where o.position is null) as high,
       longshore.current_era() as era

-- outbox_span: the oldest position that is kept, and the newest that there was.
select coalesce((select min(o.position) from longshore.outbox o where o.position is not null),
                s.last + 1) as first, s.last
  from (select case when q.is_called then q.last_value else 0 end as last
          from longshore.outbox_position q) s

-- outbox_stamp: give positions to rows that have none. limit
select longshore.stamp($1)
