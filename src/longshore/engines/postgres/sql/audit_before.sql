-- audit_before: entries before a number, newest first. before, limit
select a.number, a.at, a.kind, a.tenant, a.actor, a.action, a.subject, a.body, a.hash
  from longshore.audit a where a.number < $1 order by a.number desc limit $2
