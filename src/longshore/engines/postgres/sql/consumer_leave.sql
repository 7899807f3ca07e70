-- consumer_leave: let another take the cursor at once. name, token
update longshore.consumer set holder = '', leased_until = 0 where name = $1 and token = $2
