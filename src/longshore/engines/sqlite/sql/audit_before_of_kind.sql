-- audit_before_of_kind: the same for one kind, by its index. :place :kind :limit
select number, at, kind, tenant, actor, action, subject, body, hash from longshore_audit
 where kind = :kind and number < :place order by number desc limit :limit
