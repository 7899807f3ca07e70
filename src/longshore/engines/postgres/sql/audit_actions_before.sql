-- audit_actions_before: the same for what was ordered, by its index. before, limit
select a.number, a.at, a.kind, a.tenant, a.actor, a.action, a.subject, a.body, a.hash
  from longshore.audit a where a.kind = 'action' and a.number < $1
 order by a.number desc limit $2
