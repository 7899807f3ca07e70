-- take_scheduled: leave only these jobs in a locked scheduled span; nothing is left when the
-- mask is null. span, mask, size
with gone as (delete from longshore.scheduled where ctid = $1 and $2::bytea is null)
update longshore.scheduled set mask = $2, size = $3 where ctid = $1 and $2 is not null
