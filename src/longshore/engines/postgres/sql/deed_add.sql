-- deed_add: record what somebody ordered, in the commit that carries it out.
-- clock, action, subject, tenant, facts, actor
insert into longshore.deed (at, action, subject, tenant, facts, actor)
values (longshore.clock($1), $2, $3, $4, $5, $6)
