-- deeds: what was ordered and is not chained yet, oldest first. :limit
select number, at, action, subject, tenant, facts, actor from longshore_deed
 order by number limit :limit
