-- consumer_advance: move a cursor on, and extend its lease; no row when it is another's.
-- :name :token :position :now
update longshore_consumer
   set position = max(position, :position), leased_until = :now + lease, seen_at = :now,
       gone_at = null
 where name = :name and token = :token and holder <> ''
