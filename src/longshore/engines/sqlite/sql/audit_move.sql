-- audit_move: the chain begins and ends elsewhere now.
-- :anchor :anchor_hash :head :head_hash
insert into longshore_audit_standing (one, anchor, anchor_hash, head, head_hash)
values (1, :anchor, :anchor_hash, :head, :head_hash)
    on conflict (one) do update
   set anchor = excluded.anchor, anchor_hash = excluded.anchor_hash,
       head = excluded.head, head_hash = excluded.head_hash
