-- audit_before: entries before a number, newest first. :before :limit
select number, at, kind, tenant, actor, action, subject, body, hash from longshore_audit
 where number < :before order by number desc limit :limit
