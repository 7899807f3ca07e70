-- consumers_gone: wait no longer for those that nobody has read for since a moment.
-- :now :before
update longshore_consumer set gone_at = :now where gone_at is null and seen_at <= :before
