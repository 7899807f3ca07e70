-- audit_after: entries behind a number, oldest first. after, limit
select a.number, a.at, a.kind, a.tenant, a.actor, a.action, a.subject, a.body, a.hash
  from longshore.audit a where a.number > $1 order by a.number limit $2
