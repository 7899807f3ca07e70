-- audit_standing: where the chain begins and ends; no row before its first entry.
select s.anchor, s.anchor_hash, s.head, s.head_hash from longshore.audit_standing s
