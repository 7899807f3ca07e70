-- outbox_after: batches behind a position, in order. position, limit
select place, told_at, groups from longshore.events($1, $2)
