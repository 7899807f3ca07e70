-- is_muted: one row while progress events are left out of the outbox.
select 1 from longshore.record where kind = 'flag' and name = 'muted' and tenant = ''
