-- prune_outbox: drop old events that were shipped, or all old ones while no relay ever read.
-- :before :limit
delete from longshore_outbox where position in (
    select position from longshore_outbox indexed by longshore_outbox_age
     where at <= :before
       and (published_at is not null
            or not exists (select 1 from longshore_fact where name = 'relay'))
     order by at limit :limit)
