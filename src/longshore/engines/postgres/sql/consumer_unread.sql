-- consumer_unread: batches behind a position, for the holder of a cursor; a row of nulls for anyone
-- else. clock, name, token, position, limit
select place, told_at, groups from longshore.unread($1, $2, $3, $4, $5)
