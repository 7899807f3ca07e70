-- request_add: ask the holder of a running job to stop it. The first reason stands.
-- token, handle, delivery, reason
insert into longshore.request (token, handle, delivery, reason) values ($1, $2, $3, $4)
on conflict do nothing
