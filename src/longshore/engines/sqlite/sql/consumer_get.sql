-- consumer_get: whether a cursor is its holder's, and whether its lease is to be extended: when a
-- third of it is over.
-- :name :token :now
select leased_until - :now not between lease * 2 / 3 and lease from longshore_consumer
 where name = :name and token = :token and holder <> ''
