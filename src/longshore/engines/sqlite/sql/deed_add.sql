-- deed_add: record what somebody ordered, in the commit that carries it out.
-- :at :actor :tenant :action :subject :facts
insert into longshore_deed (at, actor, tenant, action, subject, facts)
values (:at, :actor, :tenant, :action, :subject, :facts)
