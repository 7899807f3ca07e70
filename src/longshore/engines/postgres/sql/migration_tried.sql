-- migration_tried: note that someone waited in vain for a lock just now. number
update longshore.migration set tried_at = now() where number = $1
