-- prune_passed: drop old events that every consumer has passed. Positions go by age: no more is
-- looked at than may be deleted.
-- :before :floor :limit
delete from longshore_outbox where position in (
    select position from (
        select position, at from longshore_outbox
         where position <= :floor order by position limit :limit)
     where at <= :before)
