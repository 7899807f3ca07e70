-- audit_add: one entry of the chain.
-- :number :at :kind :tenant :actor :action :subject :body :hash
insert into longshore_audit (number, at, kind, tenant, actor, action, subject, body, hash)
values (:number, :at, :kind, :tenant, :actor, :action, :subject, :body, :hash)
