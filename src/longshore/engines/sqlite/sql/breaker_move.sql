-- breaker_move: so a breaker stands now.
-- :type :standing
update longshore_breaker set standing = :standing where type = :type
