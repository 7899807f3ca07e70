-- outbox_unpublished: the oldest batches that no relay has marked. limit
select place, told_at, groups from longshore.unpublished($1)
