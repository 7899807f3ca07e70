-- audit_move: the chain begins and ends elsewhere now. anchor, its hash, head, its hash
update longshore.audit_standing s
   set anchor = $1, anchor_hash = $2, head = $3, head_hash = $4
