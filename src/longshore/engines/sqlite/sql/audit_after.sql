-- audit_after: entries behind a number, oldest first. :after :limit
select number, at, kind, tenant, actor, action, subject, body, hash from longshore_audit
 where number > :after order by number limit :limit
