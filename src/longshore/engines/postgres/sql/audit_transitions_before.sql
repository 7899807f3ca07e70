-- audit_transitions_before: the same for what happened to jobs. before, limit
select a.number, a.at, a.kind, a.tenant, a.actor, a.action, a.subject, a.body, a.hash
  from longshore.audit a where a.kind = 'transitions' and a.number < $1
 order by a.number desc limit $2
