-- deeds: what was ordered and is not chained yet. One with a smaller number may be seen later,
-- and is chained later then. limit
select d.number, d.at, d.action, d.subject, d.tenant, d.facts, d.actor from longshore.deed d
 order by d.number limit $1
