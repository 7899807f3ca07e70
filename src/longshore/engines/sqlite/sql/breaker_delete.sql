-- breaker_delete: nothing holds for a type any more.
-- :type
delete from longshore_breaker where type = :type
