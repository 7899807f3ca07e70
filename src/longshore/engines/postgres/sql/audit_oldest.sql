-- audit_oldest: the last of the entries from the chain's beginning that are all old enough,
-- among the first so many. anchor, before, limit
select a.number, a.hash from longshore.audit a
 where a.number <= $1::bigint + $3::integer
   and a.number < coalesce(
       (select n.number from longshore.audit n
         where n.number <= $1::bigint + $3::integer and n.at > $2::bigint
         order by n.number limit 1),
       $1::bigint + $3::integer + 1)
 order by a.number desc limit 1
