-- pruned_forget: no longer remember how much was pruned of queues that have nothing that ended.
-- Those that were just pruned keep it: where jobs still end, nothing may be left at this moment.
-- :queues that were
delete from longshore_total
 where name >= 'pruned/' and name < 'pruned0'
   and substr(name, 8) not in (select queue from longshore_count where jobs > 0)
   and substr(name, 8) not in (select value from json_each(:queues))
