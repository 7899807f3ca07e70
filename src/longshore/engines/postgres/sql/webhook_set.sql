-- webhook_set: replace what an endpoint is. id, definition
update longshore.webhook set definition = $2 where id = $1
