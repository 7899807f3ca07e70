-- consumer_delete: forget one.
-- :name
delete from longshore_consumer where name = :name
