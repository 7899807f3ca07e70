-- audit_hold: where the chain begins and ends, held until the commit: one appends at a time.
insert into longshore.audit_standing as s default values
    on conflict (one) do update set one = s.one
returning s.anchor, s.anchor_hash, s.head, s.head_hash
