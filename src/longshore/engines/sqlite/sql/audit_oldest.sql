-- audit_oldest: the last of the entries from the chain's beginning that are all old enough,
-- among the first so many. :anchor :before :limit
select number, hash from longshore_audit
 where number <= :anchor + :limit
   and number < coalesce(
       (select n.number from longshore_audit n
         where n.number <= :anchor + :limit and n.at > :before order by n.number limit 1),
       :anchor + :limit + 1)
 order by number desc limit 1
