-- audit_after: entries behind a number, oldest first. :place :limit
select number, at, kind, tenant, actor, action, subject, body, hash from longshore_audit
 where number > :place order by number limit :limit
