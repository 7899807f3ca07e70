-- pruned_forget: no longer remember how much was pruned of queues that have nothing that ended,
-- but for those that someone else adds to. Those that were just pruned keep it: where jobs still
-- end, nothing may be left at this moment. queues that were
delete from longshore.total t where t.ctid = any (array(
    select x.ctid from longshore.total x
     where starts_with(x.name, 'pruned/')
       and substr(x.name, 8) <> all ($1::text[])
       and substr(x.name, 8) not in (
           select t.queue from longshore.tallied t group by t.queue having sum(t.jobs) > 0)
       and substr(x.name, 8) not in (
           select h.queue from longshore.held h where h.succeeded > 0)
       for update skip locked))
