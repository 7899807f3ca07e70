-- audit_standing: where the chain begins and ends; no row before its first entry.
select anchor, anchor_hash, head, head_hash from longshore_audit_standing
