-- tenant_set: replace what a tenant is. name, definition
update longshore.tenant set definition = $2 where name = $1
