-- is_muted: whether progress events are left out of the outbox.
select exists (select 1 from longshore_record
                where kind = 'flag' and name = 'muted' and tenant = '')
