-- consumer_leave: let another take the cursor at once.
-- :name :token
update longshore_consumer set holder = '', leased_until = 0
 where name = :name and token = :token
