-- Outbox: events, and who reads them.

-- consumer_add: remember a consumer that is new.
-- :name :now
insert into longshore_consumer (name, seen_at) values (:name, :now) on conflict do nothing

-- consumer_advance: move a cursor on, and extend its lease; no row when it is another's.
-- :name :token :position :now
update longshore_consumer
   set position = max(position, :position), leased_until = :now + lease, seen_at = :now,
       gone_at = null
 where name = :name and token = :token and holder <> ''

-- consumer_delete: forget one.
-- :name
delete from longshore_consumer where name = :name

-- consumer_get: whether a cursor is its holder's, and whether its lease is to be extended: when a
-- third of it is over.
-- :name :token :now
select leased_until - :now not between lease * 2 / 3 and lease from longshore_consumer
 where name = :name and token = :token and holder <> ''

-- consumer_gone_at: since when nobody waits for a consumer.
-- :name
select gone_at from longshore_consumer where name = :name

-- consumer_leave: let another take the cursor at once.
-- :name :token
update longshore_consumer set holder = '', leased_until = 0
 where name = :name and token = :token

-- consumer_take: take a cursor, unless another has it. A lease that begins in the future was given
-- before the clock was set back: it is over. The token is one that no other history of the file
-- gave out.
-- :name :holder :lease :now
update longshore_consumer
   set token = max(token + 1, :now), holder = :holder, lease = :lease, leased_until = :now + :lease,
       seen_at = :now, gone_at = null
 where name = :name and (
       holder in ('', :holder) or leased_until <= :now or leased_until - lease > :now)
returning token, position

-- consumers: how all of them stand. Positions have no gaps but what was pruned or left out.
-- :now
select s.name, s.position, coalesce(s.last - s.done, 0) - coalesce((
           select sum(max(min(g.first_position, s.last) - max(g.last_position, s.done), 0))
             from longshore_position_gap g), 0),
       s.at, case when s.leased_until > :now and s.holder <> '' then s.holder end,
       s.seen_at, s.gone_at
  from (select c.*, f.at, max(c.position, f.position - 1) as done,
               (select max(position) from longshore_outbox) as last
          from longshore_consumer c
          left join longshore_outbox f on f.position = (
               select min(position) from longshore_outbox where position > c.position)) s
 order by s.name

-- consumers_floor: what every consumer has passed; null when there is none.
select min(position) from longshore_consumer where gone_at is null

-- consumers_gone: wait no longer for those that nobody has read for since a moment.
-- :now :before
update longshore_consumer set gone_at = :now where gone_at is null and seen_at <= :before

-- outbox_add: one row for all transitions of a transaction.
-- :at :body
insert into longshore_outbox (at, body) values (:at, :body)

-- outbox_after: batches behind a position, in order of commit.
-- :after :limit
select position, at, body from longshore_outbox
 where position > :after order by position limit :limit

-- outbox_span: the oldest position that is kept, and the newest that there was.
select coalesce((select min(position) from longshore_outbox), s.last + 1), s.last
  from (select coalesce((select seq from sqlite_sequence where name = 'longshore_outbox'), 0)
               as last) s
