-- consumers_gone: wait no longer for those that nobody has read for since a moment. now, moment
update longshore.consumer set gone_at = $1 where gone_at is null and seen_at <= $2
