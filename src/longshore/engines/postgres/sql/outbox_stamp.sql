-- outbox_stamp: give positions to rows that have none. limit
select longshore.stamp($1)
