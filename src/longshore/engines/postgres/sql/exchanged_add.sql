-- exchanged_add: an exchange was the session's last; it refused nothing. token, number
with gone as (delete from longshore.exchanged where token = $1 and number < $2)
insert into longshore.exchanged (token, number, refused) values ($1, $2, '[]')
on conflict do nothing
