-- Audit: the audit log.

-- audit_actions_before: the same for what was ordered, by its index. before, limit
select a.number, a.at, a.kind, a.tenant, a.actor, a.action, a.subject, a.body, a.hash
  from longshore.audit a where a.kind = 'action' and a.number < $1
 order by a.number desc limit $2

-- audit_add: entries of the chain.
-- numbers, times, kinds, tenants, actors, actions, subjects, bodies, hashes
insert into longshore.audit
       (number, at, kind, tenant, actor, action, subject, body, hash)
select * from unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[],
                     $7::text[], $8::bytea[], $9::bytea[])

-- audit_after: entries behind a number, oldest first. after, limit
select a.number, a.at, a.kind, a.tenant, a.actor, a.action, a.subject, a.body, a.hash
  from longshore.audit a where a.number > $1 order by a.number limit $2

-- audit_before: entries before a number, newest first. before, limit
select a.number, a.at, a.kind, a.tenant, a.actor, a.action, a.subject, a.body, a.hash
  from longshore.audit a where a.number < $1 order by a.number desc limit $2

-- audit_cut: forget the entries between two numbers, the second of them too; how many those
-- were. Both ends: with one, a server without statistics reads the whole table.
-- anchor, number
with gone as (
    delete from longshore.audit a where a.number > $1 and a.number <= $2 returning 1
)
select count(*) from gone

-- audit_hold: where the chain begins and ends, held until the commit: one appends at a time.
insert into longshore.audit_standing as s default values
    on conflict (one) do update set one = s.one
returning s.anchor, s.anchor_hash, s.head, s.head_hash

-- audit_move: the chain begins and ends elsewhere now. anchor, its hash, head, its hash
update longshore.audit_standing s
   set anchor = $1, anchor_hash = $2, head = $3, head_hash = $4

-- audit_oldest: the last of the entries from the chain's beginning that are all old enough,
-- among the first so many. anchor, before, limit
select a.number, a.hash from longshore.audit a
 where a.number <= $1::bigint + $3::integer
   and a.number < coalesce(
       (select n.number from longshore.audit n
         where n.number <= $1::bigint + $3::integer and n.at > $2::bigint
         order by n.number limit 1),
       $1::bigint + $3::integer + 1)
 order by a.number desc limit 1

-- audit_standing: where the chain begins and ends; no row before its first entry.
select s.anchor, s.anchor_hash, s.head, s.head_hash from longshore.audit_standing s

-- audit_transitions_before: the same for what happened to jobs. before, limit
select a.number, a.at, a.kind, a.tenant, a.actor, a.action, a.subject, a.body, a.hash
  from longshore.audit a where a.kind = 'transitions' and a.number < $1
 order by a.number desc limit $2

-- deed_add: record what somebody ordered, in the commit that carries it out.
-- clock, action, subject, tenant, facts, actor
insert into longshore.deed (at, action, subject, tenant, facts, actor)
values (longshore.clock($1), $2, $3, $4, $5, $6)

-- deeds: what was ordered and is not chained yet. One with a smaller number may be seen later,
-- and is chained later then. limit
select d.number, d.at, d.action, d.subject, d.tenant, d.facts, d.actor from longshore.deed d
 order by d.number limit $1

-- deeds_delete: forget what is chained. numbers
delete from longshore.deed d where d.number = any ($1::bigint[])
