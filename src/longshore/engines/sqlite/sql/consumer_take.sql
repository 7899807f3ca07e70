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
