-- audit_before: entries before a number, newest first. :place :limit
select number, at, kind, tenant, actor, action, subject, body, hash from longshore_audit
 where number < :place order by number desc limit :limit
