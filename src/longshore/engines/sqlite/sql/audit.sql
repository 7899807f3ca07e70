-- Audit: the audit log.

-- audit_add: one entry of the chain.
-- :number :at :kind :tenant :actor :action :subject :body :hash
insert into longshore_audit (number, at, kind, tenant, actor, action, subject, body, hash)
values (:number, :at, :kind, :tenant, :actor, :action, :subject, :body, :hash)

-- audit_after: entries behind a number, oldest first. :place :limit
select number, at, kind, tenant, actor, action, subject, body, hash from longshore_audit
 where number > :place order by number limit :limit

-- audit_before: entries before a number, newest first. :place :limit
select number, at, kind, tenant, actor, action, subject, body, hash from longshore_audit
 where number < :place order by number desc limit :limit

-- audit_before_of_kind: the same for one kind, by its index. :place :kind :limit
select number, at, kind, tenant, actor, action, subject, body, hash from longshore_audit
 where kind = :kind and number < :place order by number desc limit :limit

-- audit_cut: forget the entries up to a number. :number
delete from longshore_audit where number <= :number

-- audit_move: the chain begins and ends elsewhere now.
-- :anchor :anchor_hash :head :head_hash
insert into longshore_audit_standing (one, anchor, anchor_hash, head, head_hash)
values (1, :anchor, :anchor_hash, :head, :head_hash)
    on conflict (one) do update
   set anchor = excluded.anchor, anchor_hash = excluded.anchor_hash,
       head = excluded.head, head_hash = excluded.head_hash

-- audit_oldest: the last of the entries from the chain's beginning that are all old enough,
-- among the first so many. :anchor :before :limit
select number, hash from longshore_audit
 where number <= :anchor + :limit
   and number < coalesce(
       (select n.number from longshore_audit n
         where n.number <= :anchor + :limit and n.at > :before order by n.number limit 1),
       :anchor + :limit + 1)
 order by number desc limit 1

-- audit_standing: where the chain begins and ends; no row before its first entry.
select anchor, anchor_hash, head, head_hash from longshore_audit_standing

-- deed_add: record what somebody ordered, in the commit that carries it out.
-- :at :actor :tenant :action :subject :facts
insert into longshore_deed (at, actor, tenant, action, subject, facts)
values (:at, :actor, :tenant, :action, :subject, :facts)

-- deeds: what was ordered and is not chained yet, oldest first. :limit
select number, at, action, subject, tenant, facts, actor from longshore_deed
 order by number limit :limit

-- deeds_delete: forget what is chained. One writer: nothing older can appear. :number
delete from longshore_deed where number <= :number
