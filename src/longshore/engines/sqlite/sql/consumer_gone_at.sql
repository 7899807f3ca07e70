-- consumer_gone_at: since when nobody waits for a consumer.
-- :name
select gone_at from longshore_consumer where name = :name
