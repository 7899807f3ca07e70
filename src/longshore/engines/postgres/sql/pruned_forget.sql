-- pruned_forget: no longer remember how much was pruned of queues that have nothing that ended,
-- but for those that someone else adds to.
delete from longshore.fact f where f.ctid = any (array(
    select x.ctid from longshore.fact x
     where starts_with(x.name, 'pruned/')
       and substr(x.name, 8) not in (
           select t.queue from longshore.tallied t group by t.queue having sum(t.jobs) > 0)
       for update skip locked))
